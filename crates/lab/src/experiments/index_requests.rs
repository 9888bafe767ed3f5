//! The workloads of the BOSC paper (6.1 and 6.2): which leaves their requests change.

use std::collections::VecDeque;
use std::sync::Arc;

use moirai::runtime::{Random, random};
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
    /// The leaves that TPC-C transactions change, with this many warehouses.
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
    orders: Vec<u64>,
}

/// The requests of a client.
pub(super) struct Client {
    requests: Requests,
    random: Random,
    turn: u64,
    leaf: u64,
    /// The leaves of a transaction that are still to be changed.
    rest: VecDeque<u64>,
}

impl Requests {
    pub(super) fn new(workload: Workload, leaves: u64, per_leaf: u64) -> Requests {
        let districts = match workload {
            Workload::TpcC { warehouses } => warehouses * DISTRICTS,
            _ => 0,
        };
        let shared = Shared { begun: 0, orders: vec![0; districts as usize] };
        Requests { workload, leaves, per_leaf, shared: Arc::new(Mutex::new(shared)) }
    }

    /// The requests of the client called `name`.
    pub(super) fn client(&self, name: &str) -> Client {
        let requests = self.clone();
        Client { requests, random: random(name), turn: 0, leaf: 0, rest: VecDeque::new() }
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
            Workload::TpcC { warehouses } => loop {
                if let Some(leaf) = self.rest.pop_front() {
                    break leaf;
                }
                self.transaction(warehouses);
            },
        }
    }

    /// The number of the next record, random and thus unique.
    pub(super) fn record(&mut self) -> u64 {
        self.random.random()
    }

    /// A transaction of TPC-C (clause 2), as far as it changes rows: new orders, payments and deliveries.
    fn transaction(&mut self, warehouses: u64) {
        let warehouse = self.random.random_range(0..warehouses);
        let district = self.random.random_range(0..DISTRICTS);
        match self.random.random_range(0..100_u32) {
            0..45 => {
                let order = self.order(warehouse, district, 1);
                self.touch(warehouse, WAREHOUSE, 0.0);
                self.touch(warehouse, ORDERS, order);
                self.touch(warehouse, NEW_ORDERS, order);
                for line in 0..LINES {
                    let item = self.non_uniform(8191, ITEMS);
                    // One in a hundred comes from another warehouse (2.4.1.5).
                    let supplier = match self.random.random_range(0..100_u32) {
                        0 => self.random.random_range(0..warehouses),
                        _ => warehouse,
                    };
                    self.touch(supplier, STOCK, item);
                    self.touch(warehouse, ORDER_LINES, order + line as f64 * 1e-9);
                }
            }
            45..88 => {
                // Fifteen in a hundred pay elsewhere (2.5.1.2).
                let home = match self.random.random_range(0..100_u32) {
                    0..15 => self.random.random_range(0..warehouses),
                    _ => warehouse,
                };
                let customer = self.customer(district);
                let now = self.order(warehouse, district, 0);
                self.touch(warehouse, WAREHOUSE, 0.0);
                self.touch(warehouse, WAREHOUSE, 0.5);
                self.touch(home, CUSTOMERS, customer);
                self.touch(warehouse, HISTORY, now);
            }
            88..92 => {
                for district in 0..DISTRICTS {
                    let order = self.oldest_order(warehouse, district);
                    let customer = self.customer(district);
                    self.touch(warehouse, NEW_ORDERS, order);
                    self.touch(warehouse, ORDERS, order);
                    for _ in 0..LINES {
                        self.touch(warehouse, ORDER_LINES, order);
                    }
                    self.touch(warehouse, CUSTOMERS, customer);
                }
            }
            _ => {}
        }
    }

    /// Where the last order of a district lies among those of its warehouse, after `more` were added.
    fn order(&self, warehouse: u64, district: u64, more: u64) -> f64 {
        let mut shared = self.requests.shared.lock();
        let count = shared.orders.get_mut((warehouse * DISTRICTS + district) as usize);
        let last = count.map_or(0, |count| {
            *count += more;
            *count
        });
        let within = (last % ORDERS_OF_DISTRICT) as f64 / ORDERS_OF_DISTRICT as f64;
        (district as f64 + within) / DISTRICTS as f64
    }

    /// The oldest of the 900 orders of a district that wait for their delivery (4.3.3.1).
    fn oldest_order(&self, warehouse: u64, district: u64) -> f64 {
        let last = self.order(warehouse, district, 0) * DISTRICTS as f64;
        (district as f64 + (last + 0.7).fract()) / DISTRICTS as f64
    }

    fn customer(&mut self, district: u64) -> f64 {
        (district as f64 + self.non_uniform(1023, CUSTOMERS_OF_DISTRICT)) / DISTRICTS as f64
    }

    /// A number below `count`, as a share of it, of the distribution of clause 2.1.6.
    fn non_uniform(&mut self, bits: u64, count: u64) -> f64 {
        let (one, other) = (self.random.random_range(0..=bits), self.random.random_range(0..count));
        ((one | other) % count) as f64 / count as f64
    }

    /// Adds the leaf at `share` of a table of a warehouse.
    fn touch(&mut self, warehouse: u64, (from, to): (f64, f64), share: f64) {
        let Workload::TpcC { warehouses } = self.requests.workload else { return };
        let at = (warehouse as f64 + from + (to - from) * share) / warehouses as f64;
        self.rest
            .push_back(((at * self.requests.leaves as f64) as u64).min(self.requests.leaves - 1));
    }
}

const DISTRICTS: u64 = 10;
const ITEMS: u64 = 100_000;
const CUSTOMERS_OF_DISTRICT: u64 = 3000;
const ORDERS_OF_DISTRICT: u64 = 3000;
/// Of an order, on average.
const LINES: u32 = 10;
/// From where to where tables lie in what a warehouse takes, by the bytes of their rows (clauses 1.2 and 1.3).
const WAREHOUSE: (f64, f64) = (0.0, 0.001);
const CUSTOMERS: (f64, f64) = (0.001, 0.286);
const STOCK: (f64, f64) = (0.286, 0.732);
const ORDER_LINES: (f64, f64) = (0.732, 0.968);
const HISTORY: (f64, f64) = (0.968, 0.988);
const ORDERS: (f64, f64) = (0.988, 0.999);
const NEW_ORDERS: (f64, f64) = (0.999, 1.0);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use moirai::runtime::block_on_virtual;

    use super::*;

    /// Of 100 transactions of the mix, 45 change ten rows of stock each, of some 1,730 rows in all.
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
