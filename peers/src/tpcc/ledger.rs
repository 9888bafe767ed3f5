//! Consistency conditions 1, 2, 4 and 9 (clause 3.3.2), computed from the rows that an engine has in the end.

use std::collections::BTreeMap;

use moirai::tables::Datum;

use crate::Outcome;

/// The tables whose rows it takes, each with the columns that it looks at.
pub(super) const LEDGER_TABLES: [(&str, &[usize]); 5] = [
    ("warehouse", &[0, 8]),
    ("district", &[0, 1, 9, 10]),
    ("history", &[4, 3, 6]),
    ("orders", &[0, 1, 2, 6]),
    ("order_line", &[0, 1]),
];

#[derive(Default)]
struct District {
    paid: i64,
    next_order: i64,
    newest_order: i64,
    history: i64,
    lines: i64,
    found_lines: i64,
}

/// What the rows add up to.
#[derive(Default)]
pub(super) struct Ledger {
    warehouses: BTreeMap<i64, i64>,
    districts: BTreeMap<(i64, i64), District>,
}

impl Ledger {
    /// Takes a row of one of [`LEDGER_TABLES`]: the columns that are named there.
    pub(super) fn take(&mut self, table: &str, row: &[Datum]) {
        let int = |place: usize| row.get(place).and_then(Datum::number).unwrap_or(0) as i64;
        if table == "warehouse" {
            self.warehouses.insert(int(0), int(1));
            return;
        }
        let district = self.districts.entry((int(0), int(1))).or_default();
        match table {
            "district" => (district.paid, district.next_order) = (int(2), int(3)),
            "history" => district.history += int(2),
            "orders" => {
                district.newest_order = district.newest_order.max(int(2));
                district.lines += int(3);
            }
            _ => district.found_lines += 1,
        }
    }

    /// An error where a condition does not hold.
    pub(super) fn check(&self) -> Outcome<()> {
        for (warehouse, paid) in &self.warehouses {
            let districts = self.districts.range((*warehouse, 0)..(*warehouse + 1, 0));
            if districts.map(|(_, one)| one.paid).sum::<i64>() != *paid {
                return Err(format!("condition 1 does not hold of warehouse {warehouse}").into());
            }
        }
        for ((warehouse, district), one) in &self.districts {
            let conditions = [
                (2, one.newest_order + 1 == one.next_order),
                (4, one.lines == one.found_lines),
                (9, one.history == one.paid),
            ];
            if let Some((number, _)) = conditions.into_iter().find(|(_, holds)| !holds) {
                let of = format!("district {district} of warehouse {warehouse}");
                return Err(format!("condition {number} does not hold of {of}").into());
            }
        }
        match self.warehouses.is_empty() {
            true => Err("there are no warehouses".into()),
            false => Ok(()),
        }
    }
}
