//! Stock-Level (clause 2.8.2), serializable like all others.

use std::ops::Bound;

use tombolo_database::{Transaction, TxError};

use super::inputs::StockLevel;
use super::lookup::{self, row};
use super::population::MOST_LINES;
use super::rows::{District, Stock};
use super::schema;

/// Orders that are looked at.
const ORDERS: u32 = 20;

/// Returns how many of the items in the district's last 20 orders are low in stock.
pub(super) fn run<T: Transaction>(
    transaction: &mut T,
    input: &StockLevel,
) -> Result<usize, TxError> {
    let StockLevel { warehouse, district, threshold } = *input;
    let key = schema::district(warehouse, district);
    let next = District::view(row(transaction, schema::DISTRICT, &key)?)?.next_order();
    let mut items = Vec::with_capacity(ORDERS as usize * MOST_LINES);
    let low = schema::order_line(warehouse, district, next.saturating_sub(ORDERS), 0);
    let high = schema::order_line(warehouse, district, next, 0);
    let range = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
    lookup::lines(transaction, range, false, |_, line| items.push(line.item()))?;
    items.sort_unstable();
    items.dedup();
    let mut low = 0;
    for item in items {
        let stock = row(transaction, schema::STOCK, &schema::stock(warehouse, item))?;
        low += usize::from(Stock::view(stock)?.quantity() < threshold);
    }
    Ok(low)
}
