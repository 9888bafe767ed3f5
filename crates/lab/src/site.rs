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
                    rows => table(ran.experiment, rows, false),
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
         <p>Source: {}. Seed {}, {:.1} s.</p>\n",
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
            body += &table(ran.experiment, &rows, true);
            body += "</section>\n";
        }
    }
    body += "<section>\n<h2 id=\"assumed\">What was assumed</h2>\n<ul>\n";
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

/// The rows. On the experiment's own page, not on the first one, they have their tolerances.
fn table(experiment: &Experiment, rows: &[&Row], is_own: bool) -> String {
    let tolerance = if is_own { "<th scope=\"col\">Tolerance</th>" } else { "" };
    let mut text = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Figures\">\n<table class=\"figures\">\n<thead><tr>\
         <th scope=\"col\">Figure</th><th scope=\"col\" class=\"number\">Published</th>\
         <th scope=\"col\" class=\"number\">Ours</th><th scope=\"col\" class=\"number\">Ratio</th>{tolerance}\
         <th scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n"
    );
    let page = if is_own { String::new() } else { file(experiment) };
    for row in rows {
        let digits = decimals(row.published.map_or(row.ours.abs(), f64::abs).max(row.ours.abs()));
        let cell = |label: &str, value: Option<f64>, digits| {
            let value = value.map(|value| number(value, digits)).unwrap_or_default();
            format!("<td data-label=\"{label}\">{value}</td>")
        };
        let tolerance = match (is_own, row.tolerance) {
            (false, _) => String::new(),
            (true, None) => "<td></td>".to_owned(),
            (true, Some(tolerance)) => {
                let class = if row.within == Some(false) { " class=\"off\"" } else { "" };
                let tolerance = escape(&tolerance.to_string());
                format!("<td{class} data-label=\"tolerance\">{tolerance}</td>")
            }
        };
        let unit = match row.unit {
            "" => String::new(),
            unit => format!(" <span class=\"unit\">{}</span>", escape(unit)),
        };
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}{unit}</th>{}{}{}{tolerance}<td class=\"verdict-cell\">{}</td></tr>",
            escape(&row.figure),
            cell("published", row.published, digits),
            cell("ours", Some(row.ours), digits),
            cell("ratio", row.ratio, 2),
            verdict_of(row, &page),
        );
    }
    text + "</tbody>\n</table>\n</div>\n"
}

/// How near a row is, and why it is no nearer, or where to look for that.
fn verdict_of(row: &Row, page: &str) -> String {
    let (verdict, is_far) = match Verdict::of(row) {
        Some(verdict) => (verdict.cell(), matches!(verdict, Verdict::Thirty | Verdict::Off)),
        None if row.published.is_some() => ("not judged at this scale".to_owned(), false),
        None => (String::new(), false),
    };
    match row.because {
        Some(why) => format!("{verdict} <span class=\"why\">{}</span>", escape(why)),
        None if is_far => {
            format!("{verdict} <a class=\"why\" href=\"{page}#assumed\">what was assumed</a>")
        }
        None => verdict,
    }
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
            Row::new("far again", "", 2.0).beside(1.0),
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
                ">near <",
                ">far <",
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
        assert!(has(index, &["one.html#assumed"]) && has(page, &["id=\"assumed\""]));
        assert_eq!(counts(&all).map(|(_, count)| count), [1, 0, 0, 2]);
    }

    #[test]
    fn a_failure_is_told() {
        let pages = pages(&[ran(Err("no <room>".into()))]);
        assert!(pages.iter().all(|(_, text)| text.contains("no &lt;room&gt;")));
    }
}
