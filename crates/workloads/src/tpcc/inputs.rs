//! What transactions are asked to do (clauses 2.4.1 to 2.8.1), drawn apart from running them, so that any engine can run them.

use moirai_runtime::{Random, random};
use rand::Rng;

use crate::tpcc::generate::Skew;
use crate::tpcc::kinds::Kind;
use crate::tpcc::schema::{DISTRICTS, Scale};

/// What a transaction is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Enters an order.
    NewOrder(NewOrder),
    /// Takes a payment.
    Payment(Payment),
    /// Shows the last order of a customer.
    OrderStatus {
        /// Of this district.
        place: District,
        /// Who asks.
        customer: CustomerBy,
    },
    /// Delivers the oldest order of each district.
    Delivery {
        /// Of this warehouse.
        warehouse: i64,
        /// Who carries them.
        carrier: i64,
    },
    /// Counts the items of the last 20 orders that are scarce.
    StockLevel {
        /// The terminal's district.
        place: District,
        /// Fewer than so many are scarce.
        threshold: i64,
    },
}

/// A district of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct District {
    /// Its warehouse.
    pub warehouse: i64,
    /// Its number there, from 1 on.
    pub district: i64,
}

/// How a customer is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustomerBy {
    /// By the number.
    Number(i64),
    /// By the last name: of those who have it, in the order of their first names, the one in the middle is meant (clause 2.5.2.2).
    LastName(String),
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// Where it is entered.
    pub place: District,
    /// Whose it is.
    pub customer: i64,
    /// Its lines. One order in a hundred has an item that there is not, as its last: it is rolled back then.
    pub lines: Vec<Line>,
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The item.
    pub item: i64,
    /// The warehouse that supplies it.
    pub supply: i64,
    /// How many.
    pub quantity: i64,
}

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Where it is taken.
    pub place: District,
    /// Where the customer lives.
    pub of: District,
    /// Who pays.
    pub customer: CustomerBy,
    /// What is paid, in cents.
    pub amount: i64,
}

/// What a terminal asks for, one transaction after another.
#[derive(Clone, Debug)]
pub struct Inputs {
    scale: Scale,
    home: District,
    skew: Skew,
    random: Random,
}

impl Inputs {
    /// Those of the terminal with a number: terminals of a warehouse have different districts (clause 2.4.1.1 leaves it open).
    #[must_use]
    pub fn new(scale: Scale, terminal: u64) -> Inputs {
        let number = terminal as i64;
        let warehouse = number % scale.warehouses + 1;
        Inputs {
            scale,
            home: District { warehouse, district: number / scale.warehouses % DISTRICTS + 1 },
            // The constants of a run are those of all terminals.
            skew: Skew::draw(&mut random("tpcc run")),
            random: random(&format!("tpcc terminal {terminal}")),
        }
    }

    /// The kind of the transaction that comes next (clause 5.2.3): the least shares of the specification, and New-Order for the rest.
    pub fn draw_kind(&mut self) -> Kind {
        match self.random.random_range(0..100) {
            0..45 => Kind::NewOrder,
            45..88 => Kind::Payment,
            88..92 => Kind::OrderStatus,
            92..96 => Kind::Delivery,
            _ => Kind::StockLevel,
        }
    }

    /// Random numbers of the terminal's stream.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The input of a transaction of a kind.
    pub fn draw(&mut self, kind: Kind) -> Input {
        let warehouse = self.home.warehouse;
        match kind {
            Kind::NewOrder => Input::NewOrder(self.new_order()),
            Kind::Payment => Input::Payment(self.payment()),
            Kind::OrderStatus => Input::OrderStatus {
                place: self.any_district(warehouse),
                customer: self.customer(),
            },
            Kind::Delivery => {
                Input::Delivery { warehouse, carrier: self.random.random_range(1..=10) }
            }
            Kind::StockLevel => {
                let threshold = self.random.random_range(10..=20);
                Input::StockLevel { place: self.home, threshold }
            }
        }
    }

    fn any_district(&mut self, warehouse: i64) -> District {
        District { warehouse, district: self.random.random_range(1..=DISTRICTS) }
    }

    /// A warehouse that is not the terminal's, if there is another.
    fn other_warehouse(&mut self) -> i64 {
        let count = self.scale.warehouses;
        if count == 1 {
            return self.home.warehouse;
        }
        let other = self.random.random_range(1..count);
        if other < self.home.warehouse { other } else { other + 1 }
    }

    /// Clause 2.4.1.
    fn new_order(&mut self) -> NewOrder {
        let place = self.any_district(self.home.warehouse);
        let customer = self.skew.customer(&mut self.random, &self.scale);
        let count = self.random.random_range(5..=15);
        let has_missing = self.random.random_range(0..100) == 0;
        let lines = (1..=count)
            .map(|line| {
                let item = match has_missing && line == count {
                    true => self.scale.items + 1,
                    false => self.skew.item(&mut self.random, &self.scale),
                };
                let is_remote = self.random.random_range(0..100) == 0;
                let supply = if is_remote { self.other_warehouse() } else { place.warehouse };
                Line { item, supply, quantity: self.random.random_range(1..=10) }
            })
            .collect();
        NewOrder { place, customer, lines }
    }

    /// Three in five by the last name (clauses 2.5.1.2 and 2.6.1.2).
    fn customer(&mut self) -> CustomerBy {
        match self.random.random_range(0..100) {
            0..60 => CustomerBy::LastName(self.skew.name(&mut self.random, &self.scale)),
            _ => CustomerBy::Number(self.skew.customer(&mut self.random, &self.scale)),
        }
    }

    /// Clause 2.5.1.
    fn payment(&mut self) -> Payment {
        let place = self.any_district(self.home.warehouse);
        let of = match self.random.random_range(0..100) {
            0..85 => place,
            _ => {
                let other = self.other_warehouse();
                self.any_district(other)
            }
        };
        let amount = self.random.random_range(100..=500_000);
        Payment { place, of, customer: self.customer(), amount }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of 100,000 drawn inputs against those of the clauses.
    #[test]
    fn inputs_have_the_shares_of_the_specification() {
        let mut inputs = Inputs::new(Scale::of(10), 3);
        let (mut lines, mut remote_lines, mut missing, mut orders) = (0, 0, 0, 0);
        let (mut payments, mut away, mut by_name) = (0, 0, 0);
        for _ in 0..100_000 {
            let kind = inputs.draw_kind();
            match inputs.draw(kind) {
                Input::NewOrder(order) => {
                    assert!((5..=15).contains(&order.lines.len()) && order.place.warehouse == 4);
                    orders += 1;
                    lines += order.lines.len();
                    remote_lines += order.lines.iter().filter(|line| line.supply != 4).count();
                    missing += usize::from(order.lines.iter().any(|line| line.item == 100_001));
                }
                Input::Payment(payment) => {
                    payments += 1;
                    away += usize::from(payment.of.warehouse != 4);
                    by_name += usize::from(matches!(payment.customer, CustomerBy::LastName(_)));
                }
                _ => {}
            }
        }
        let near = |part: usize, all: usize, share: f64| {
            let expected = all as f64 * share;
            let sigma = (expected * (1.0 - share)).sqrt();
            assert!((part as f64 - expected).abs() < 4.0 * sigma, "{part} of {all}, not {share}");
        };
        near(orders, 100_000, 0.45);
        near(payments, 100_000, 0.43);
        near(remote_lines, lines, 0.01);
        near(missing, orders, 0.01);
        near(away, payments, 0.15);
        near(by_name, payments, 0.6);
    }
}
