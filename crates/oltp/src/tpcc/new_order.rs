//! New-Order (clause 2.4.2).

use tombolo_database::{Transaction, TxError};

use super::inputs::{Line, NewOrder, id};
use super::lookup::{replace, row, row_for_update};
use super::population::{MOST_LINES, is_original};
use super::rows::{Customer, District, Item, Order, OrderLine, Stock, Warehouse};
use super::schema;

/// The terminal's output for an order that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// O_ID.
    pub order: u32,
    /// The total amount, in cents.
    pub total: i64,
    /// OL_AMOUNT of each line, in cents.
    pub amounts: [i64; MOST_LINES],
    /// Lines whose `brand-generic` field shows B.
    pub brands: u8,
}

/// Places an order. `None` if its last item does not exist: then all has been done but for that
/// item, and the transaction has to be aborted.
///
/// `index` says whether the order is put into the index of orders by customer.
pub(super) fn run<T: Transaction>(
    transaction: &mut T,
    input: &NewOrder,
    index: bool,
) -> Result<Option<Placed>, TxError> {
    let NewOrder { warehouse, district, customer, .. } = *input;
    let key = schema::warehouse(warehouse);
    let warehouse_tax = Warehouse::view(row(transaction, schema::WAREHOUSE, &key)?)?.tax();

    let key = schema::district(warehouse, district);
    let mut row_of = District::copy(row_for_update(transaction, schema::DISTRICT, &key)?)?;
    let (order, tax) = (row_of.next_order(), warehouse_tax + row_of.tax());
    row_of.set_next_order(order + 1);
    replace(transaction, schema::DISTRICT, &key, row_of.bytes())?;

    let key = schema::customer(warehouse, district, customer);
    let discount = Customer::view(row(transaction, schema::CUSTOMER, &key)?)?.discount();

    insert_order(transaction, input, order, index)?;
    let (mut amounts, mut brands) = ([0; MOST_LINES], 0);
    for (index, line) in input.lines().iter().enumerate() {
        let key = schema::item(line.item);
        let Some(item) = transaction.get(schema::ITEM, &key)? else { return Ok(None) };
        let item = Item::view(item)?;
        let amount = item.price() * i64::from(line.quantity);
        let item_is_original = is_original(&item.data());
        let (info, stock_is_original) = take_from_stock(transaction, input, line)?;
        brands += u8::from(item_is_original && stock_is_original);
        amounts[index] = amount;
        let mut row = OrderLine::zeroed();
        row.set_item(line.item);
        row.set_supplier(line.supplier);
        row.set_quantity(line.quantity);
        row.set_amount(amount);
        row.set_info(info);
        let key = schema::order_line(warehouse, district, order, index as u8 + 1);
        transaction.insert(schema::ORDER_LINE, &key, row.bytes())?;
    }
    let total = total(amounts.iter().sum(), discount, tax);
    Ok(Some(Placed { order, total, amounts, brands }))
}

fn insert_order<T: Transaction>(
    transaction: &mut T,
    input: &NewOrder,
    order: u32,
    index: bool,
) -> Result<(), TxError> {
    let NewOrder { warehouse, district, customer, date, .. } = *input;
    let all_local = input.lines().iter().all(|line| line.supplier == warehouse);
    let mut row = Order::zeroed();
    row.set_customer(customer);
    row.set_entered(date);
    row.set_lines(input.lines().len() as u8);
    row.set_all_local(all_local.into());
    let key = schema::order(warehouse, district, order);
    transaction.insert(schema::ORDER, &key, row.bytes())?;
    transaction.insert(schema::NEW_ORDER, &key, &[])?;
    if index {
        let key = schema::customer_order(id(warehouse, district, customer), order);
        transaction.insert(schema::CUSTOMER_ORDER, &key, &[])?;
    }
    Ok(())
}

/// Returns S_DIST_xx, and whether S_DATA has `ORIGINAL` in it.
fn take_from_stock<T: Transaction>(
    transaction: &mut T,
    input: &NewOrder,
    line: &Line,
) -> Result<([u8; 24], bool), TxError> {
    let key = schema::stock(line.supplier, line.item);
    let mut stock = Stock::copy(row_for_update(transaction, schema::STOCK, &key)?)?;
    let ordered = i32::from(line.quantity);
    let left = stock.quantity() - ordered;
    stock.set_quantity(if left >= 10 { left } else { left + 91 });
    stock.set_ytd(stock.ytd() + u64::from(line.quantity));
    stock.set_orders(stock.orders() + 1);
    if line.supplier != input.warehouse {
        stock.set_remote_orders(stock.remote_orders() + 1);
    }
    replace(transaction, schema::STOCK, &key, stock.bytes())?;
    let at = (usize::from(input.district) - 1) * 24;
    let info = stock.districts()[at..].first_chunk().copied();
    let info = info.ok_or_else(|| {
        TxError::Failed(format!("a stock has no text for district {}", input.district))
    })?;
    Ok((info, is_original(&stock.data())))
}

/// `sum * (1 - discount) * (1 + tax)` in cents, rounded half up.
fn total(sum: i64, discount: u16, tax: u16) -> i64 {
    let exact = sum * (10_000 - i64::from(discount)) * (10_000 + i64::from(tax));
    (exact + 50_000_000) / 100_000_000
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn totals_are_rounded_to_cents() {
        assert_eq!(total(10_000, 0, 0), 10_000);
        assert_eq!(total(10_000, 5000, 0), 5000);
        assert_eq!(total(10_000, 0, 4000), 14_000);
        assert_eq!(total(1, 5000, 0), 1, "half a cent is rounded up");
        assert_eq!(total(1, 5001, 0), 0);
        assert_eq!(total(15 * 10 * 10_000, 0, 4000), 2_100_000);
    }
}
