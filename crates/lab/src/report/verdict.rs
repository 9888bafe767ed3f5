//! The verdict of the report: where the columns win and where they lose, computed from the figures.

use super::by_workload;
use super::text::{escape, number};
use crate::figures::DemoRow;

/// Times that differ by less than this share are called equal.
const EQUAL_SHARE: f64 = 0.02;

/// The time of a workload on CSM divided by its time on NSM.
struct Ratio<'a> {
    workload: &'a str,
    ratio: f64,
}

/// One sentence about the simulated disks, and one about the files; nothing if no workload ran on both layouts.
pub(super) fn verdict(rows: &[DemoRow]) -> String {
    let on_disks = ratios(rows, |row| row.simulated_io_ms);
    if on_disks.is_empty() {
        return String::new();
    }
    let on_files = ratios(rows, |row| row.file_wall_ms);
    let of_files = match on_files.as_slice() {
        [] => String::new(),
        ratios => format!(
            "\n<p>In the files, in real time on this machine, {}.</p>",
            sentence(ratios, "columns", "rows")
        ),
    };
    let of_disks = sentence(&on_disks, "columns (CSM)", "rows (NSM)");
    format!(
        "<p class=\"verdict\">On the simulated disks, in virtual time, {of_disks}.</p>\n\
         <p>A percentage is the time that columns take, relative to rows.</p>{of_files}\n"
    )
}

fn ratios(rows: &[DemoRow], value: fn(&DemoRow) -> f64) -> Vec<Ratio<'_>> {
    let ratio = |rows: &'_ [DemoRow]| {
        let value_of = |layout| rows.iter().find(|row| row.layout == layout).map(value);
        Some(value_of("csm")? / value_of("nsm")?).filter(|ratio| ratio.is_finite())
    };
    let of_workload = |rows| {
        let ratio = ratio(rows)?;
        rows.first().map(|row| Ratio { workload: &row.workload, ratio })
    };
    by_workload(rows).filter_map(of_workload).collect()
}

fn sentence(ratios: &[Ratio<'_>], columns: &str, rows: &str) -> String {
    let is_equal = |ratio: f64| (ratio - 1.0).abs() < EQUAL_SHARE;
    let list = |is_in: &dyn Fn(f64) -> bool| {
        let items = ratios.iter().filter(|one| is_in(one.ratio));
        let items = items.map(|one| format!("{} ({}%)", escape(one.workload), percent(one.ratio)));
        joined(&items.collect::<Vec<_>>())
    };
    let wins = list(&|ratio| ratio < 1.0 && !is_equal(ratio));
    let losses = list(&|ratio| ratio > 1.0 && !is_equal(ratio));
    let ties = list(&is_equal);
    let won = wins.map(|wins| format!("<b>beat</b> {rows} in {wins}"));
    let lost = losses.map(|losses| format!("<b>lose</b> to {rows} in {losses}"));
    let tied = ties.map(|ties| format!("tie with {rows} in {ties}"));
    let clauses: Vec<String> = [won, lost, tied].into_iter().flatten().collect();
    format!("{columns} {}", clauses.join("; they "))
}

/// The ratio in percent; shares below 10 % with a decimal.
fn percent(ratio: f64) -> String {
    number(100.0 * ratio, usize::from(ratio < 0.1))
}

/// `a`, `a and b`, or `a, b and c`; nothing of nothing.
fn joined(items: &[String]) -> Option<String> {
    let (last, others) = items.split_last()?;
    Some(match others {
        [] => last.clone(),
        _ => format!("{} and {last}", others.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(times: &[(&str, f64, f64)]) -> Vec<DemoRow> {
        let row = |workload: &str, layout: &str, ms| DemoRow {
            workload: workload.into(),
            layout: layout.into(),
            read_mib: 1.0,
            written_mib: 0.0,
            ios: 1,
            simulated_io_ms: ms,
            disk_efficiency: 0.5,
            file_wall_ms: 7.0,
        };
        let pair =
            |&(name, nsm, csm): &(&str, f64, f64)| [row(name, "nsm", nsm), row(name, "csm", csm)];
        times.iter().flat_map(pair).collect()
    }

    #[test]
    fn the_verdict_says_where_columns_win_and_where_they_lose() {
        let times = [("Q1", 100.0, 58.4), ("Q6", 100.0, 9.25), ("full scan", 200.0, 286.0)];
        let text = verdict(&rows(&times));
        let disks = "On the simulated disks, in virtual time, columns (CSM) <b>beat</b> rows (NSM) in Q1 (58%) \
                     and Q6 (9.2%); they <b>lose</b> to rows (NSM) in full scan (143%).";
        assert!(text.contains(disks), "{text}");
        assert!(
            text.contains("columns tie with rows in Q1 (100%), Q6 (100%) and full scan (100%)."),
            "{text}"
        );
    }

    #[test]
    fn the_verdict_of_the_opposite_figures_is_the_opposite() {
        let text = verdict(&rows(&[("Q1", 58.0, 100.0), ("full scan", 286.0, 200.0)]));
        assert!(
            text.contains("in full scan (70%); they <b>lose</b> to rows (NSM) in Q1 (172%)"),
            "{text}"
        );
        let text = verdict(&rows(&[("Q1", 58.0, 100.0)]));
        assert!(text.contains("columns (CSM) <b>lose</b> to") && !text.contains("beat"), "{text}");
    }

    #[test]
    fn no_figures_give_no_verdict() {
        assert_eq!(verdict(&[]), "");
        assert_eq!(verdict(&rows(&[("Q1", 0.0, 0.0)])), "");
    }
}
