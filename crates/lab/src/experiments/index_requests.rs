//! The workloads of the BOSC paper (6.1 and 6.2): which leaves their requests change.

use std::collections::VecDeque;
use std::sync::Arc;

use moirai::runtime::{Random, random};
use moirai_workloads::tpcc::Scale;
use moirai_workloads::tpcc::inputs::{CustomerBy, District, Input, Inputs, Line};
use parking_lot::Mutex;
use rand::Rng;

/// Which leaves a workload changes, after 6.1 and 6.2 of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// Any leaf.
    Random,
    /// One leaf after the other, as many records as each has room for.
    Sequential,
    /// Any leaf, 32 records in a row.
    Clustered,
    /// The leaves of tables and indexes that TPC-C changes, with this many warehouses, by the inputs that its terminals draw.
    TpcC { warehouses: u64 },
}

/// Records of a cluster.
const CLUSTER: u64 = 32;

/// The requests of all clients.
#[derive(Clone)]
pub(super) struct Requests {
    workload: Workload,
    leaves: u64,
    /// Records that a leaf has room for.
    per_leaf: u64,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    begun: u64,
    /// Orders of each district since the beginning.
    orders: Vec<i64>,
    /// Terminals of TPC-C so far.
    terminals: u64,
}

/// The requests of a client.
pub(super) struct Client {
    requests: Requests,
    random: Random,
    turn: u64,
    leaf: u64,
    /// The leaves of a transaction that are still to be changed.
    rest: VecDeque<u64>,
    /// For TPC-C, a terminal of each warehouse: each transaction of the client is one of a random terminal.
    terminals: Vec<Inputs>,
}

impl Requests {
    pub(super) fn new(workload: Workload, leaves: u64, per_leaf: u64) -> Requests {
        let districts = match workload {
            Workload::TpcC { warehouses } => warehouses * DISTRICTS as u64,
            _ => 0,
        };
        let shared = Shared { orders: vec![0; districts as usize], ..Shared::default() };
        Requests { workload, leaves, per_leaf, shared: Arc::new(Mutex::new(shared)) }
    }

    /// The requests of the client called `name`.
    pub(super) fn client(&self, name: &str) -> Client {
        let terminals = match self.workload {
            Workload::TpcC { warehouses } => {
                let mut shared = self.shared.lock();
                let first = shared.terminals;
                shared.terminals += warehouses;
                let scale = Scale::of(warehouses as i64);
                (first..first + warehouses).map(|number| Inputs::new(scale, number)).collect()
            }
            _ => Vec::new(),
        };
        let (requests, rest) = (self.clone(), VecDeque::new());
        Client { requests, random: random(name), turn: 0, leaf: 0, rest, terminals }
    }
}

impl Client {
    /// The leaf that the next request changes.
    pub(super) fn leaf(&mut self) -> u64 {
        let leaves = self.requests.leaves;
        self.turn += 1;
        match self.requests.workload {
            Workload::Random => self.random.random_range(0..leaves),
            Workload::Sequential => {
                let mut shared = self.requests.shared.lock();
                shared.begun += 1;
                (shared.begun - 1) / self.requests.per_leaf % leaves
            }
            Workload::Clustered => {
                if self.turn % CLUSTER == 1 {
                    self.leaf = self.random.random_range(0..leaves);
                }
                self.leaf
            }
            Workload::TpcC { .. } => loop {
                if let Some(leaf) = self.rest.pop_front() {
                    break leaf;
                }
                self.transaction();
            },
        }
    }

    /// The number of the next record, random and thus unique.
    pub(super) fn record(&mut self) -> u64 {
        self.random.random()
    }

    /// The leaves that the next transaction of a terminal changes: of tables, and of the index on the orders of customers.
    fn transaction(&mut self) {
        let place = self.random.random_range(0..self.terminals.len().max(1));
        let Some(inputs) = self.terminals.get_mut(place) else { return };
        let kind = inputs.draw_kind();
        match inputs.draw(kind) {
            Input::NewOrder(order) => {
                let District { warehouse, district } = order.place;
                // One in a hundred is rolled back (clause 2.4.1.4), and changes nothing.
                if order.lines.iter().any(|line| line.item > ITEMS) {
                    return;
                }
                let number = self.order(order.place, 1);
                self.touch(warehouse, WAREHOUSE, 0.0);
                self.touch(warehouse, ORDERS, number);
                self.touch(warehouse, NEW_ORDERS, number);
                let customer = of_district(district, order.customer - 1, CUSTOMERS_OF_DISTRICT);
                self.touch(warehouse, ORDERS_BY_CUSTOMER, customer);
                for (line, Line { item, supply, .. }) in order.lines.iter().enumerate() {
                    self.touch(*supply, STOCK, (item - 1) as f64 / ITEMS as f64);
                    self.touch(warehouse, ORDER_LINES, number + line as f64 * 1e-9);
                }
            }
            Input::Payment(payment) => {
                let warehouse = payment.place.warehouse;
                let number = match payment.customer {
                    CustomerBy::Number(number) => number - 1,
                    // Those with a last name are anywhere in the district, and always the same.
                    CustomerBy::LastName(name) => {
                        let digits = name.bytes().map(i64::from);
                        digits.fold(0, |sum, digit| (sum * 31 + digit) % CUSTOMERS_OF_DISTRICT)
                    }
                };
                let now = self.order(payment.place, 0);
                self.touch(warehouse, WAREHOUSE, 0.0);
                self.touch(warehouse, WAREHOUSE, 0.5);
                let customer = of_district(payment.of.district, number, CUSTOMERS_OF_DISTRICT);
                self.touch(payment.of.warehouse, CUSTOMERS, customer);
                self.touch(warehouse, HISTORY, now);
            }
            Input::Delivery { warehouse, .. } => {
                for district in 1..=DISTRICTS {
                    let order = self.oldest_order(District { warehouse, district });
                    let customer = self.random.random_range(0..CUSTOMERS_OF_DISTRICT);
                    let customer = of_district(district, customer, CUSTOMERS_OF_DISTRICT);
                    self.touch(warehouse, NEW_ORDERS, order);
                    self.touch(warehouse, ORDERS, order);
                    for _ in 0..LINES {
                        self.touch(warehouse, ORDER_LINES, order);
                    }
                    self.touch(warehouse, CUSTOMERS, customer);
                }
            }
            Input::OrderStatus { .. } | Input::StockLevel { .. } => {}
        }
    }

    /// Where the last order of a district lies among those of its warehouse, after `more` were added.
    fn order(&self, District { warehouse, district }: District, more: i64) -> f64 {
        let mut shared = self.requests.shared.lock();
        let place = (warehouse - 1) * DISTRICTS + district - 1;
        let last = shared.orders.get_mut(place as usize).map_or(0, |count| {
            *count += more;
            *count
        });
        of_district(district, last % ORDERS_OF_DISTRICT, ORDERS_OF_DISTRICT)
    }

    /// The oldest of the 900 orders of a district that wait for their delivery (4.3.3.1).
    fn oldest_order(&self, place: District) -> f64 {
        let last = self.order(place, 0) * DISTRICTS as f64;
        ((place.district - 1) as f64 + (last + 0.7).fract()) / DISTRICTS as f64
    }

    /// Adds the leaf at `share` of a table of a warehouse.
    fn touch(&mut self, warehouse: i64, (from, to): (f64, f64), share: f64) {
        let Workload::TpcC { warehouses } = self.requests.workload else { return };
        let at = ((warehouse - 1) as f64 + from + (to - from) * share) / warehouses as f64;
        self.rest
            .push_back(((at * self.requests.leaves as f64) as u64).min(self.requests.leaves - 1));
    }
}

/// Where number `of` of `count` in a district lies among those of the warehouse.
fn of_district(district: i64, of: i64, count: i64) -> f64 {
    ((district - 1) as f64 + of as f64 / count as f64) / DISTRICTS as f64
}

const DISTRICTS: i64 = 10;
const ITEMS: i64 = 100_000;
const CUSTOMERS_OF_DISTRICT: i64 = 3000;
const ORDERS_OF_DISTRICT: i64 = 3000;
/// Of an order that is delivered, on average.
const LINES: u32 = 10;
/// From where to where tables lie in what a warehouse takes, by the bytes of their rows (clauses 1.2 and 1.3) and 16 for an entry of the
/// index.
const WAREHOUSE: (f64, f64) = (0.0, 0.001);
const CUSTOMERS: (f64, f64) = (0.001, 0.285);
const STOCK: (f64, f64) = (0.285, 0.728);
const ORDER_LINES: (f64, f64) = (0.728, 0.962);
const HISTORY: (f64, f64) = (0.962, 0.982);
const ORDERS: (f64, f64) = (0.982, 0.992);
const ORDERS_BY_CUSTOMER: (f64, f64) = (0.992, 0.999);
const NEW_ORDERS: (f64, f64) = (0.999, 1.0);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use moirai::runtime::block_on_virtual;

    use super::*;

    /// Of 100 transactions of the mix, 45 change ten rows of stock each, of some 1,770 rows and entries in all.
    #[test]
    fn transactions_change_what_the_benchmark_says() {
        block_on_virtual(1, async {
            let requests = Requests::new(Workload::TpcC { warehouses: 10 }, 10_000, 1000);
            let mut client = requests.client("client");
            let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
            for _ in 0..100_000 {
                *counts.entry(client.leaf() % 1000).or_default() += 1;
            }
            let share = |(from, to): (f64, f64)| {
                let within = (from * 1000.0) as u64..(to * 1000.0) as u64;
                counts.range(within).map(|(_, count)| *count).sum::<u64>() as f64 / 100_000.0
            };
            let of_stock = share(STOCK);
            assert!((0.24..0.28).contains(&of_stock), "{of_stock} of the changes are of stock");
            let of_lines = share(ORDER_LINES);
            assert!(
                (0.46..0.52).contains(&of_lines),
                "{of_lines} of the changes are of order lines"
            );
        });
    }
}
