//! The kinds of transactions, and what they read.

/// A kind of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An order of 5 to 15 items: the one that is counted.
    NewOrder,
    /// A payment of a customer.
    Payment,
    /// The last order of a customer.
    OrderStatus,
    /// Delivers the oldest order of each district.
    Delivery,
    /// Counts scarce items.
    StockLevel,
}

/// What the kinds are called, in the order of [`Kind::ALL`].
pub const KINDS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// The one at a place in [`KINDS`].
    #[must_use]
    pub fn of(place: usize) -> Kind {
        Kind::ALL.get(place).copied().unwrap_or(Kind::NewOrder)
    }

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        KINDS.get(self as usize).unwrap_or(&"")
    }

    /// Seconds of keying before it, and of thinking after it on average (clause 5.2.5.7).
    pub(crate) fn pauses_s(self) -> (f64, f64) {
        match self {
            Kind::NewOrder => (18.0, 12.0),
            Kind::Payment => (3.0, 12.0),
            Kind::OrderStatus => (2.0, 10.0),
            Kind::Delivery => (2.0, 5.0),
            Kind::StockLevel => (2.0, 5.0),
        }
    }
}

/// What transactions read of the rows that they read or change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowReads {
    /// The columns that they need. Additions, and new values that depend on no old ones, read nothing.
    #[default]
    Needed,
    /// All columns of each row that they change, before they change it, as systems do that write rows in place.
    WholeChanged,
}
