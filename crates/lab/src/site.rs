//! The laboratory's site: what was published, beside what came out here. Pages need neither scripts nor the network.

mod chart;
mod verdict;

use std::fmt::Write;

use crate::report::text::{escape, number};
use crate::{Experiment, Outcome, Row};
pub use verdict::Verdict;

/// An experiment that was run, or failed.
#[derive(Debug)]
pub struct Ran<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its figures, or why there are none.
    pub outcome: Result<Outcome, String>,
    /// The scale that it was run at.
    pub scale: f64,
    /// The seed of its random choices.
    pub seed: u64,
    /// How long it took, in seconds of real time.
    pub seconds: f64,
}

/// A page: the name of its file, and its text.
pub type Page = (String, String);

/// The site of some experiments; the first page is `index.html`.
#[must_use]
pub fn pages(all: &[Ran<'_>]) -> Vec<Page> {
    let index = ("index.html".to_owned(), index(all));
    let of_each = all.iter().map(|ran| (file(ran.experiment), experiment(ran)));
    std::iter::once(index).chain(of_each).collect()
}

/// Published figures of a run by verdict, in the order of [`Verdict::ALL`].
#[must_use]
pub fn counts(all: &[Ran<'_>]) -> [(Verdict, usize); 4] {
    let rows = all.iter().filter_map(|ran| ran.outcome.as_ref().ok());
    let verdicts: Vec<Verdict> =
        rows.flat_map(|outcome| outcome.rows.iter().filter_map(Verdict::of)).collect();
    Verdict::ALL.map(|verdict| (verdict, verdicts.iter().filter(|one| **one == verdict).count()))
}

fn file(experiment: &Experiment) -> String {
    format!("{}.html", experiment.name)
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{}{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title),
        include_str!("report/report.css"),
        include_str!("site/site.css"),
    )
}

fn index(all: &[Ran<'_>]) -> String {
    let counted: Vec<String> = counts(all)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| format!("<b>{count}</b> {}", verdict.words()))
        .collect();
    let published: usize = counts(all).iter().map(|(_, count)| count).sum();
    let mut body = format!(
        "<header>\n<h1>Published and ours</h1>\n<p class=\"verdict\">Of {published} published figures that were measured again {}.</p>\n\
         <p>Moirai's laboratory runs the experiments of the papers that it is made from, in the virtual time of simulated devices. Each row is \
         a published figure. The experiment's page has the rest: the chart, what was assumed, and the command that repeats it.</p>\n</header>\n",
        counted.join(", ")
    );
    for ran in all {
        let Experiment { name, source, summary, .. } = ran.experiment;
        let scale =
            if ran.scale < 1.0 { format!(" At scale {}.", ran.scale) } else { String::new() };
        let _ = write!(
            body,
            "<section>\n<h2><a href=\"{}\">{}</a></h2>\n<p>{}. <span class=\"source\">{}.{scale}</span></p>\n",
            file(ran.experiment),
            escape(name),
            escape(&capitalised(summary)),
            escape(source)
        );
        match &ran.outcome {
            Err(problem) => body += &failed(problem),
            Ok(outcome) => {
                let rows: Vec<&Row> =
                    outcome.rows.iter().filter(|row| row.published.is_some()).collect();
                body += &match rows.as_slice() {
                    [] => "<p>Nothing published to compare with: see its page.</p>\n".to_owned(),
                    rows => table(rows, true),
                };
            }
        }
        body += "</section>\n";
    }
    page("Moirai: published and ours", &body)
}

fn failed(problem: &str) -> String {
    format!("<p class=\"off\"><b>It failed:</b> {}</p>\n", escape(problem))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn experiment(ran: &Ran<'_>) -> String {
    let Experiment { name, source, summary, assumptions, scaling, .. } = ran.experiment;
    let mut body = format!(
        "<header>\n<p><a href=\"index.html\">All experiments</a></p>\n<h1>{}</h1>\n<p class=\"verdict\">{}.</p>\n\
         <p>Source: {}. Seed {}, {:.0} s.</p>\n",
        escape(name),
        escape(&capitalised(summary)),
        escape(source),
        ran.seed,
        ran.seconds
    );
    if let Some(scaling) = scaling.filter(|_| ran.scale < 1.0) {
        let _ = writeln!(
            body,
            "<p>Scale {} multiplies {}. These figures are not of the published setting.</p>",
            ran.scale,
            escape(scaling.what)
        );
    }
    body += "</header>\n";
    match &ran.outcome {
        Err(problem) => body += &failed(problem),
        Ok(outcome) => {
            let rows: Vec<&Row> = outcome.rows.iter().collect();
            body += "<section>\n<h2>Chart</h2>\n";
            body += &chart::figure(&outcome.rows);
            body += "</section>\n<section>\n<h2>All figures</h2>\n";
            body += &table(&rows, false);
            body += "</section>\n";
        }
    }
    body += "<section>\n<h2>What was assumed</h2>\n<ul>\n";
    for assumption in *assumptions {
        let _ = writeln!(body, "<li>{}</li>", escape(assumption));
    }
    let scale = if ran.scale < 1.0 { format!(" --scale {}", ran.scale) } else { String::new() };
    let _ = write!(
        body,
        "</ul>\n</section>\n<section>\n<h2>Again</h2>\n<pre><code>moirai lab run {} --seed {}{scale}</code></pre>\n</section>\n",
        escape(name),
        ran.seed
    );
    page(&format!("Moirai: {name}"), &body)
}

/// The rows; with their tolerances, unless they are the `published` ones of the first page.
fn table(rows: &[&Row], published: bool) -> String {
    let tolerance = if published { "" } else { "<th scope=\"col\">Tolerance</th>" };
    let mut text = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Figures\">\n<table class=\"figures\">\n<thead><tr>\
         <th scope=\"col\">Figure</th><th scope=\"col\">Unit</th><th scope=\"col\" class=\"number\">Published</th>\
         <th scope=\"col\" class=\"number\">Ours</th><th scope=\"col\" class=\"number\">Ratio</th>{tolerance}\
         <th scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n"
    );
    for row in rows {
        let digits = decimals(row.published.map_or(row.ours.abs(), f64::abs).max(row.ours.abs()));
        let value =
            |value: Option<f64>| value.map(|value| number(value, digits)).unwrap_or_default();
        let ratio = row.ratio.map(|ratio| number(ratio, 2)).unwrap_or_default();
        let tolerance = match (published, row.tolerance) {
            (true, _) => String::new(),
            (false, None) => "<td></td>".to_owned(),
            (false, Some(tolerance)) => {
                let class = if row.within == Some(false) { " class=\"off\"" } else { "" };
                format!("<td{class}>{}</td>", escape(&tolerance.to_string()))
            }
        };
        let verdict = match Verdict::of(row) {
            Some(verdict) => verdict.cell(),
            None if row.published.is_some() => "not judged at this scale".to_owned(),
            None => String::new(),
        };
        let why = row.because.map(|why| format!(" <span class=\"why\">{}</span>", escape(why)));
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td class=\"unit\">{}</td><td>{}</td><td>{}</td><td>{ratio}</td>{tolerance}<td class=\"verdict-cell\">{verdict}{}</td></tr>",
            escape(&row.figure),
            escape(row.unit),
            value(row.published),
            value(Some(row.ours)),
            why.unwrap_or_default(),
        );
    }
    text + "</tbody>\n</table>\n</div>\n"
}

/// So many that three digits count, down to a thousandth.
fn decimals(value: f64) -> usize {
    match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scaling, Tolerance};

    const EXPERIMENT: Experiment = Experiment {
        name: "one",
        source: "thesis <5>",
        summary: "a thing & another",
        assumptions: &["none"],
        takes: "1 s",
        scaling: Some(Scaling { least: 0.1, shorter: 0.5, what: "all" }),
        run: |_| Ok(Vec::new()),
    };

    fn ran(outcome: Result<Vec<Row>, String>) -> Ran<'static> {
        let outcome = outcome.map(|rows| Outcome {
            experiment: "one",
            source: "thesis",
            seed: 7,
            scale: 0.5,
            rows,
        });
        Ran { experiment: &EXPERIMENT, outcome, scale: 0.5, seed: 7, seconds: 1.0 }
    }

    #[test]
    fn every_published_figure_has_its_row_and_verdict() {
        let rows = vec![
            Row::new("near", "ms", 1.04).beside(1.0).judged(Tolerance::Published(0.05)),
            Row::new("far", "ms", 2.0).beside(1.0).because("the drive <differs>"),
            Row::new("ours alone", "ms", 3.0),
        ];
        let all = [ran(Ok(rows))];
        let pages = pages(&all);
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["index.html", "one.html"]);
        let (index, page) = (&pages[0].1, &pages[1].1);
        let has = |page: &str, parts: &[&str]| parts.iter().all(|part| page.contains(part));
        assert!(has(
            index,
            &[
                ">near<",
                ">far<",
                "within 5 %",
                "the drive &lt;differs&gt;",
                "A thing &amp; another"
            ]
        ));
        assert!(!index.contains("ours alone"));
        assert!(has(
            page,
            &["ours alone", "±5 %", "--seed 7 --scale 0.5", "not of the published setting", "<svg"]
        ));
        for (_, text) in &pages {
            let links = ["http:", "https:", "<script", "<link", "@import", "url(", "<differs>"];
            assert_eq!(links.map(|part| text.contains(part)), [false; 7]);
        }
        assert_eq!(counts(&all).map(|(_, count)| count), [1, 0, 0, 1]);
    }

    #[test]
    fn a_failure_is_told() {
        let pages = pages(&[ran(Err("no <room>".into()))]);
        assert!(pages.iter().all(|(_, text)| text.contains("no &lt;room&gt;")));
    }
}
