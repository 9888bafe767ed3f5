//! The report of the demo: one HTML page that needs neither scripts nor the network.

mod chart;
mod column;
pub(crate) mod svg;
pub(crate) mod text;
mod verdict;

use crate::figures::{DemoFigures, DemoRow, LoadRow};
use chart::Chart;
use column::Column;
use text::escape;
use verdict::verdict;

const CHARTS: [Chart; 4] = [
    Chart {
        title: "Data read and written",
        note: "Less is better.",
        unit: " MiB",
        value: |row| row.read_mib + row.written_mib,
        full: None,
    },
    Chart {
        title: "I/O time on the simulated disks, virtual ms",
        note: "Less is better.",
        unit: " ms",
        value: |row| row.simulated_io_ms,
        full: None,
    },
    Chart {
        title: "Time in the files, real ms",
        note: "Less is better. Real time on this machine.",
        unit: " ms",
        value: |row| row.file_wall_ms,
        full: None,
    },
    Chart {
        title: "Efficiency of the simulated disks",
        note: "More is better; a full bar is 100%.",
        unit: "%",
        value: efficiency_percent,
        full: Some(100.0),
    },
];

/// The page that shows `figures` to someone who has never heard of Moirai.
#[must_use]
pub fn html(figures: &DemoFigures) -> String {
    format!(
        include_str!("report/page.html"),
        style = include_str!("report/report.css"),
        scale_factor = figures.scale_factor,
        seed = figures.seed,
        simulated = escape(&figures.simulated),
        files = files(&figures.files),
        verdict = verdict(&figures.rows),
        charts = charts(&figures.rows),
        results = results(&figures.rows),
        load = load(&figures.load),
    )
}

/// The files by name, as `a and b`.
fn files(files: &[String]) -> String {
    let names: Vec<String> = files.iter().map(|file| format!("<b>{}</b>", escape(file))).collect();
    names.join(" and ")
}

fn by_workload(rows: &[DemoRow]) -> impl Iterator<Item = &[DemoRow]> {
    rows.chunk_by(|a, b| a.workload == b.workload)
}

fn charts(rows: &[DemoRow]) -> String {
    if rows.is_empty() {
        return "<p>No workload ran.</p>\n".to_owned();
    }
    CHARTS.iter().map(|chart| chart.figure(rows)).collect()
}

fn results(rows: &[DemoRow]) -> String {
    let columns = [
        Column::new(rows, |row| row.read_mib),
        Column::new(rows, |row| row.written_mib),
        Column::new(rows, |row| row.ios as f64),
        Column::new(rows, |row| row.simulated_io_ms),
        Column::new(rows, efficiency_percent),
        Column::new(rows, |row| row.file_wall_ms),
    ];
    let line = |row: &DemoRow| {
        let workload = escape(&row.workload);
        let cells = cells(&row.layout, &columns, row);
        format!("<tr><th scope=\"row\" class=\"workload\">{workload}</th>{cells}</tr>\n")
    };
    let lines = |rows: &[DemoRow]| rows.iter().map(line).collect::<String>();
    let body = by_workload(rows).map(|rows| format!("<tbody>\n{}</tbody>\n", lines(rows)));
    body.collect()
}

fn load(rows: &[LoadRow]) -> String {
    let columns = [
        Column::new(rows, |row| row.stored_mib),
        Column::new(rows, |row| row.simulated_write_ms),
        Column::new(rows, |row| row.file_load_ms),
    ];
    let line = |row: &LoadRow| format!("<tr>{}</tr>\n", cells(&row.layout, &columns, row));
    rows.iter().map(line).collect()
}

/// The layout and the numbers of a row.
fn cells<Row>(layout: &str, columns: &[Column<Row>], row: &Row) -> String {
    let (class, name) = (escape(layout), escape(&layout.to_uppercase()));
    let cell = |column: &Column<Row>| format!("<td>{}</td>", column.text(row));
    let numbers: String = columns.iter().map(cell).collect();
    format!("<th scope=\"row\"><span class=\"key {class}\">{name}</span></th>{numbers}")
}

fn efficiency_percent(row: &DemoRow) -> f64 {
    100.0 * row.disk_efficiency
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &[(&str, &str, f64)]) -> String {
        let row = |&(workload, layout, value): &(&str, &str, f64)| DemoRow {
            workload: workload.into(),
            layout: layout.into(),
            read_mib: value,
            written_mib: 0.0,
            ios: 12_345,
            simulated_io_ms: value,
            disk_efficiency: value / 100.0,
            file_wall_ms: value,
        };
        html(&DemoFigures {
            scale_factor: 0.1,
            seed: 7,
            simulated: "4 x <disk>".into(),
            files: vec!["a&b/nsm.moirai".into(), "a&b/csm.moirai".into()],
            load: vec![],
            rows: rows.iter().map(row).collect(),
        })
    }

    #[test]
    fn the_page_shows_every_workload_in_both_layouts_and_needs_no_network() {
        let pair = |name| [(name, "nsm", 80.0), (name, "csm", 20.0)];
        let page = page(&["Q1", "full scan"].map(pair).concat());
        let parts = [">Q1<", ">full scan<", ">NSM<", ">CSM<", "12,345"];
        assert_eq!(parts.map(|part| page.contains(part)), [true; 5]);
        assert!(page.contains("CSM is 25% of NSM"));
        assert!(page.contains("<b>a&amp;b/nsm.moirai</b> and <b>a&amp;b/csm.moirai</b>"));
        let (verdict, chart) = (page.find("<b>beat</b>"), page.find("<figure>"));
        assert!(verdict.is_some() && verdict < chart, "the page begins with the verdict");
        assert!(page.contains("moirai demo --scale 0.1 --seed 7"));
        let links = ["http:", "https:", "<script", "<link", "@import", "url("];
        assert_eq!(links.map(|part| page.contains(part)), [false; 6]);
    }

    #[test]
    fn text_is_escaped() {
        let page = page(&[("<b id=w>", "\"><i>", 1.0)]);
        let raw = ["<b id", "\"><i>", "\"><I>", "a&b", "<disk>"];
        assert_eq!(raw.map(|part| page.contains(part)), [false; 5]);
    }

    #[test]
    fn no_rows_and_zeros_give_a_page() {
        assert!(page(&[]).contains("No workload ran"));
        let page = page(&[("Q1", "nsm", 0.0), ("Q1", "csm", 0.0)]);
        assert!(page.contains(">0 MiB<") && !page.contains("NaN") && !page.contains("\"inf"));
    }
}
