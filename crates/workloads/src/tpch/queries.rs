//! The 22 queries of TPC-H, with the parameters of the specification's validation runs.
//!
//! `tpchgen` carries the texts of the specification's query generator, qgen, with `:1`, `:2` and so
//! on where parameters go. What is done to them here: the parameters are filled in, rows are limited
//! by `limit`, and what only some dialects know is written in plain SQL.

use tpchgen::q_and_a::queries as templates;

/// How many queries there are; their numbers begin with 1.
pub const QUERIES: u8 = 22;

/// How a query differs from its template.
struct Filling {
    /// What stands for `:1`, `:2` and so on: the clause "Query Validation" of each query.
    parameters: &'static [&'static str],
    /// The rows to return where the query ends with "Return only the first ... rows".
    row_limit: Option<u32>,
}

const fn all_rows(parameters: &'static [&'static str]) -> Filling {
    Filling { parameters, row_limit: None }
}

const fn first_rows(row_limit: u32, parameters: &'static [&'static str]) -> Filling {
    Filling { parameters, row_limit: Some(row_limit) }
}

/// Clauses 2.4.1.4 to 2.4.22.4 of the specification, in the order of the queries.
const FILLINGS: [Filling; QUERIES as usize] = [
    all_rows(&["90"]),
    first_rows(100, &["15", "BRASS", "EUROPE"]),
    first_rows(10, &["BUILDING", "1995-03-15"]),
    all_rows(&["1993-07-01"]),
    all_rows(&["ASIA", "1994-01-01"]),
    all_rows(&["1994-01-01", "0.06", "24"]),
    all_rows(&["FRANCE", "GERMANY"]),
    all_rows(&["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"]),
    all_rows(&["green"]),
    first_rows(20, &["1993-10-01"]),
    // Its second parameter depends on the scale factor: see `q11_fraction`.
    all_rows(&["GERMANY"]),
    all_rows(&["MAIL", "SHIP", "1994-01-01"]),
    all_rows(&["special", "requests"]),
    all_rows(&["1995-09-01"]),
    all_rows(&["1996-01-01"]),
    all_rows(&["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"]),
    all_rows(&["Brand#23", "MED BOX"]),
    first_rows(100, &["300"]),
    all_rows(&["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"]),
    all_rows(&["forest", "1994-01-01", "CANADA"]),
    first_rows(100, &["SAUDI ARABIA"]),
    all_rows(&["13", "31", "23", "29", "30", "18", "17"]),
];

/// Query 15 as one statement: variant A of the specification's approved ones (appendix B). The
/// template creates a view, reads it and drops it.
const Q15: &str = "\
with revenue (supplier_no, total_revenue) as (
	select
		l_suppkey,
		sum(l_extendedprice * (1 - l_discount))
	from
		lineitem
	where
		l_shipdate >= date ':1'
		and l_shipdate < date ':1' + interval '3' month
	group by
		l_suppkey
)
select
	s_suppkey,
	s_name,
	s_address,
	s_phone,
	total_revenue
from
	supplier,
	revenue
where
	s_suppkey = supplier_no
	and total_revenue = (
		select
			max(total_revenue)
		from
			revenue
	)
order by
	s_suppkey";

/// The text of query `number`, from 1 to 22, for data of this scale factor: one statement, without
/// a semicolon.
///
/// Only query 11 depends on the scale factor.
#[must_use]
pub fn query(number: u8, scale_factor: f64) -> Option<String> {
    let filling = FILLINGS.get(usize::from(number).checked_sub(1)?)?;
    let template = match number {
        15 => Q15,
        _ => templates::query(i32::from(number))?,
    };
    let mut text = template.trim().trim_end_matches(';').to_owned();
    // Query 1: the 3 is the precision of the interval, which goes without saying.
    text = text.replace(" day (3)", " day");
    if number == 11 {
        text = text.replace(":2", &q11_fraction(scale_factor));
    }
    // From the last one on, so that `:1` is not found in `:10`.
    for (index, parameter) in filling.parameters.iter().enumerate().rev() {
        text = text.replace(&format!(":{}", index + 1), parameter);
    }
    if let Some(row_limit) = filling.row_limit {
        text.push_str(&format!("\nlimit {row_limit}"));
    }
    Some(text)
}

/// The share of the total value from which on query 11 calls a part important (clause 2.4.11.3).
fn q11_fraction(scale_factor: f64) -> String {
    let digits = format!("{:.12}", 0.0001 / scale_factor);
    digits.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_22_queries_from_1_on() {
        for number in 1..=22 {
            assert!(query(number, 1.0).is_some(), "{number}");
        }
        assert_eq!(query(0, 1.0), None);
        assert_eq!(query(23, 1.0), None);
        assert_eq!(query(u8::MAX, 1.0), None);
    }

    #[test]
    fn every_query_is_one_statement_without_open_parameters() {
        for number in 1..=22 {
            let text = query(number, 1.0).unwrap();
            assert!(text.starts_with("select") || text.starts_with("with"), "{text}");
            assert!(!text.contains([':', ';']), "{text}");
            let count = |bracket| text.matches(bracket).count();
            assert_eq!(count('('), count(')'), "{text}");
            assert_eq!(count('\'') % 2, 0, "{text}");
        }
    }

    #[test]
    fn every_parameter_is_used() {
        for (filling, number) in FILLINGS.iter().zip(1..) {
            let text = query(number, 1.0).unwrap();
            for parameter in filling.parameters {
                assert!(text.contains(parameter), "{parameter} in {text}");
            }
        }
    }

    #[test]
    fn parameters_stand_where_they_belong() {
        let check = |number: u8, expected: &str| {
            let text = query(number, 1.0).unwrap();
            assert!(text.contains(expected), "{expected} in {text}");
        };
        check(1, "date '1998-12-01' - interval '90' day\n");
        check(2, "p_size = 15\n\tand p_type like '%BRASS'");
        check(6, "l_discount between 0.06 - 0.01 and 0.06 + 0.01\n\tand l_quantity < 24");
        check(13, "o_comment not like '%special%requests%'");
        check(16, "p_size in (49, 14, 23, 45, 19, 3, 36, 9)");
        check(18, "sum(l_quantity) > 300");
        check(22, "('13', '31', '23', '29', '30', '18', '17')");
    }

    #[test]
    fn only_these_queries_return_their_first_rows() {
        let limited: Vec<_> = (1..=22)
            .filter_map(|number| {
                let text = query(number, 1.0)?;
                let (_, row_limit) = text.split_once("\nlimit ")?;
                Some((number, row_limit.to_owned()))
            })
            .collect();
        let expected = [(2, "100"), (3, "10"), (10, "20"), (18, "100"), (21, "100")];
        assert_eq!(limited, expected.map(|(number, limit)| (number, limit.to_owned())));
    }

    #[test]
    fn query_11_alone_depends_on_the_scale_factor() {
        let check = |scale_factor: f64, expected: &str| {
            assert_eq!(q11_fraction(scale_factor), expected);
            let text = query(11, scale_factor).unwrap();
            assert!(text.contains(&format!("* {expected}\n")), "{text}");
        };
        check(1.0, "0.0001");
        check(0.01, "0.01");
        check(0.001, "0.1");
        check(3.0, "0.000033333333");
        check(100.0, "0.000001");
        for number in (1..=22).filter(|number| *number != 11) {
            assert_eq!(query(number, 1.0), query(number, 0.01), "{number}");
        }
    }
}
