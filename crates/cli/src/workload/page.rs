//! The page of a run: throughput by the second, response times of each kind, and a table.

use std::fmt::Write;

use moirai::units::Nanos;
use moirai_workloads::driver::Figures;

use super::KindReport;
use crate::html::{self, escape};

/// The page of a run whose operations are called `what`, with a sentence on it.
pub(super) fn page(
    title: &str,
    lead: &str,
    what: &str,
    (kinds, figures): (&[KindReport], &Figures),
) -> String {
    let mut body = format!("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", escape(title), escape(lead));
    body += &moirai_charts::rates("Throughput", &format!("{what} a second"), &figures.by_second);
    let responses: Vec<Vec<Nanos>> = figures
        .kinds
        .iter()
        .map(|kind| kind.responses_ns.iter().copied().map(Nanos).collect())
        .collect();
    let series: Vec<(&str, &[Nanos])> = kinds
        .iter()
        .zip(&responses)
        .filter(|(kind, _)| kind.was_run())
        .map(|(kind, responses)| (kind.kind, &responses[..]))
        .collect();
    body += &moirai_charts::distributions("Response times", &series, "");
    body += "<table>\n<tr><th></th><th class=\"n\">committed</th><th class=\"n\">rolled back</th>\
             <th class=\"n\">retries</th><th class=\"n\">p50, ms</th><th class=\"n\">p90</th>\
             <th class=\"n\">p99</th><th class=\"n\">p99.9</th></tr>\n";
    for kind in kinds.iter().filter(|kind| kind.was_run()) {
        body += "<tr>";
        for (index, cell) in kind.cells().iter().enumerate() {
            let class = if index == 0 { "" } else { " class=\"n\"" };
            let _ = write!(body, "<td{class}>{}</td>", escape(cell));
        }
        body += "</tr>\n";
    }
    body += "</table>\n";
    html::page(title, "", &body)
}
