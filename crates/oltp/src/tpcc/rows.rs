//! TPC-C's rows. Their keys are not repeated in them.
//!
//! Money is in cents; taxes and discounts are in 1/10,000. A date of 0 is null, and so is a carrier
//! of 0.

use tombolo_database::TxError;

use crate::row::row;

row! {
    /// A row of WAREHOUSE.
    Warehouse {
        /// W_TAX.
        tax, set_tax: u16;
        /// W_YTD.
        ytd, set_ytd: i64;
        /// W_NAME.
        name, set_name: [u8; 10];
        /// W_STREET_1, W_STREET_2, W_CITY, W_STATE and W_ZIP.
        address, set_address: [u8; 71];
    }
}

row! {
    /// A row of DISTRICT.
    District {
        /// D_TAX.
        tax, set_tax: u16;
        /// D_YTD.
        ytd, set_ytd: i64;
        /// D_NEXT_O_ID.
        next_order, set_next_order: u32;
        /// D_NAME.
        name, set_name: [u8; 10];
        /// D_STREET_1, D_STREET_2, D_CITY, D_STATE and D_ZIP.
        address, set_address: [u8; 71];
    }
}

row! {
    /// A row of CUSTOMER.
    Customer {
        /// C_BALANCE.
        balance, set_balance: i64;
        /// C_YTD_PAYMENT.
        ytd_payment, set_ytd_payment: i64;
        /// C_PAYMENT_CNT.
        payments, set_payments: u32;
        /// C_DELIVERY_CNT.
        deliveries, set_deliveries: u32;
        /// C_CREDIT_LIM.
        credit_limit, set_credit_limit: i64;
        /// C_DISCOUNT.
        discount, set_discount: u16;
        /// C_CREDIT: `GC` or `BC`.
        credit, set_credit: [u8; 2];
        /// C_SINCE.
        since, set_since: u64;
        /// C_FIRST.
        first, set_first: [u8; 16];
        /// C_MIDDLE.
        middle, set_middle: [u8; 2];
        /// C_LAST.
        last, set_last: [u8; 16];
        /// C_STREET_1, C_STREET_2, C_CITY, C_STATE and C_ZIP.
        address, set_address: [u8; 71];
        /// C_PHONE.
        phone, set_phone: [u8; 16];
        /// C_DATA.
        data, set_data: [u8; 500];
    }
}

row! {
    /// A row of HISTORY.
    History {
        /// H_AMOUNT.
        amount, set_amount: i64;
        /// H_DATE.
        date, set_date: u64;
        /// H_DATA.
        data, set_data: [u8; 24];
    }
}

row! {
    /// A row of ORDER.
    Order {
        /// O_C_ID.
        customer, set_customer: u32;
        /// O_ENTRY_D.
        entered, set_entered: u64;
        /// O_CARRIER_ID, 0 until the order is delivered.
        carrier, set_carrier: u8;
        /// O_OL_CNT.
        lines, set_lines: u8;
        /// O_ALL_LOCAL.
        all_local, set_all_local: u8;
    }
}

row! {
    /// A row of ORDER-LINE.
    OrderLine {
        /// OL_I_ID.
        item, set_item: u32;
        /// OL_SUPPLY_W_ID, from 0.
        supplier, set_supplier: u32;
        /// OL_DELIVERY_D, 0 until the order is delivered.
        delivered, set_delivered: u64;
        /// OL_QUANTITY.
        quantity, set_quantity: u8;
        /// OL_AMOUNT.
        amount, set_amount: i64;
        /// OL_DIST_INFO.
        info, set_info: [u8; 24];
    }
}

row! {
    /// A row of ITEM.
    Item {
        /// I_PRICE.
        price, set_price: i64;
        /// I_IM_ID.
        image, set_image: u32;
        /// I_NAME.
        name, set_name: [u8; 24];
        /// I_DATA.
        data, set_data: [u8; 50];
    }
}

row! {
    /// A row of STOCK.
    Stock {
        /// S_QUANTITY.
        quantity, set_quantity: i32;
        /// S_YTD.
        ytd, set_ytd: u64;
        /// S_ORDER_CNT.
        orders, set_orders: u32;
        /// S_REMOTE_CNT.
        remote_orders, set_remote_orders: u32;
        /// S_DIST_01 to S_DIST_10, 24 bytes each.
        districts, set_districts: [u8; 240];
        /// S_DATA.
        data, set_data: [u8; 50];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let mut customer = Customer::zeroed();
        customer.set_balance(-1);
        customer.set_ytd_payment(i64::MAX);
        customer.set_payments(7);
        customer.set_credit(*b"BC");
        customer.set_data([b'x'; 500]);
        customer.set_first([b'f'; 16]);
        customer.set_last([b'l'; 16]);
        let view = Customer::view(customer.bytes()).unwrap();
        assert_eq!((view.balance(), view.ytd_payment(), view.payments()), (-1, i64::MAX, 7));
        assert_eq!((view.credit(), view.first(), view.last()), (*b"BC", [b'f'; 16], [b'l'; 16]));
        assert_eq!((view.data(), view.deliveries(), view.since()), ([b'x'; 500], 0, 0));
        assert_eq!(Customer::copy(view.to_owned().bytes()).unwrap().balance(), -1);
    }

    #[test]
    fn rows_of_another_size_are_refused() {
        let error = Order::view(&[0; Order::BYTES + 1]).unwrap_err();
        assert_eq!(error.to_string(), "a row of Order has 16 bytes instead of 15");
        assert!(Order::copy(&[]).is_err());
    }
}
