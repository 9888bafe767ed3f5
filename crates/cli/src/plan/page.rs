//! The page of plans: objects over arrays over disks, response times side by side, and why the first plan is
//! the best. Self-contained: neither scripts nor the network.

use std::fmt::Write;

use moirai::units::{ByteCount, grouped_decimals};
use moirai_policy::search::Judged;

use super::words::{arrays_text, reason};
use crate::html::{self, escape};

/// Objects in the chart of response times: the ones with the most requests.
const CHARTED: usize = 24;

/// The page of `judged`, the best plan first.
pub(super) fn page(judged: &[Judged]) -> String {
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = write!(body, "<h1>Placement</h1>\n<p class=\"lead\">{}</p>\n", escape(&reason(judged)));
    summary(&mut body, judged);
    // Of plans that the search found alike, the best is enough.
    let is_alike =
        |index: usize, judged: &Judged| index > 0 && judged.plan.name.starts_with("planned, ");
    for (_, judged) in judged.iter().enumerate().filter(|(index, judged)| !is_alike(*index, judged))
    {
        picture(&mut body, judged);
    }
    responses(&mut body, judged);
    html::page("Placement", include_str!("page.css"), &body)
}

fn summary(body: &mut String, judged: &[Judged]) {
    body.push_str(
        "<table>\n<tr><th>plan</th><th class=\"n\">price</th><th class=\"n\">mean response, ms</th>\
         <th>goals</th><th class=\"n\">busiest disk</th></tr>\n",
    );
    for Judged { plan, judgement } in judged {
        let busiest =
            judgement.disk_utilisation.iter().map(|disk| disk.utilisation).fold(0.0, f64::max);
        let has_goals = judgement.objects.iter().any(|object| object.goal.is_some());
        let goals = match (has_goals, judgement.meets_goals) {
            (false, _) => "none",
            (true, true) => "met",
            (true, false) => "missed",
        };
        let confidence = match judgement.cost_confidence > 0.0 {
            true => format!(" &plusmn; {}", grouped_decimals(judgement.cost_confidence, 2)),
            false => String::new(),
        };
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}{confidence}</td><td class=\"{goals}\">{goals}</td>\
             <td class=\"n\">{:.0} %</td></tr>",
            escape(&plan.name),
            grouped_decimals(judgement.price, 0),
            grouped_decimals(judgement.cost, 2),
            busiest * 100.0
        );
    }
    body.push_str("</table>\n");
}

/// The objects over the arrays over the disks of a plan.
fn picture(body: &mut String, judged: &Judged) {
    let Judged { plan, judgement } = judged;
    let _ = write!(body, "<h2>{}</h2>\n<div class=\"arrays\">\n", escape(&plan.name));
    for array in &plan.arrays {
        let _ = write!(
            body,
            "<section class=\"array\">\n<h3>{}</h3>\n<p class=\"kind\">{} &times; {}</p>\n<ul>\n",
            escape(&array.name),
            array.disks,
            escape(&array.profile)
        );
        for (placement, figures) in plan.objects.iter().zip(&judgement.objects) {
            if !placement.arrays.contains(&array.name) {
                continue;
            }
            let missed = if figures.missed.is_some() { " class=\"missed\"" } else { "" };
            let spread = match placement.arrays.len() {
                1 => String::new(),
                count => format!(", 1/{count} of it"),
            };
            let unit = ByteCount(figures.stripe_unit_bytes);
            let _ = writeln!(
                body,
                "<li{missed}><b>{}</b> {}, {unit}{spread}</li>",
                escape(&placement.name),
                escape(&placement.level)
            );
        }
        body.push_str("</ul>\n<div class=\"disks\">\n");
        for disk in judgement.disk_utilisation.iter().filter(|disk| disk.array == array.name) {
            let percent = disk.utilisation * 100.0;
            let kind = match percent {
                80.0.. => "high",
                50.0.. => "middle",
                _ => "low",
            };
            let _ = writeln!(
                body,
                "<div class=\"disk\" title=\"disk {}: {percent:.0} %\"><i class=\"{kind}\" \
                 style=\"height:{percent:.1}%\"></i><span>{percent:.0}</span></div>",
                disk.disk
            );
        }
        body.push_str("</div>\n</section>\n");
    }
    body.push_str("</div>\n");
}

/// The response times of each object in each plan, as bars.
fn responses(body: &mut String, judged: &[Judged]) {
    let Some(best) = judged.first() else { return };
    let mut objects: Vec<_> =
        best.judgement.objects.iter().filter(|object| object.requests > 0).collect();
    objects.sort_by_key(|object| std::cmp::Reverse(object.requests));
    let of = |judged: &Judged, name: &str| {
        let object = judged.judgement.objects.iter().find(|object| object.name == name);
        object.map(|object| (object.mean_response_ms, object.p95_response_ms, object.array.clone()))
    };
    let shown: Vec<_> = objects.iter().take(CHARTED).collect();
    let most = judged
        .iter()
        .flat_map(|judged| shown.iter().filter_map(|object| Some(of(judged, &object.name)?.1)))
        .fold(0.001, f64::max);
    body.push_str(
        "<h2>Response times</h2>\n<p>The dark bar is the mean, the light one the 95th percentile, in ms.</p>\n\
         <table class=\"bars\">\n",
    );
    for object in shown {
        let goal = object.goal.as_ref().map(|goal| format!(" <small>{}</small>", escape(goal)));
        let _ = writeln!(
            body,
            "<tr><th colspan=\"4\">{}{}</th></tr>",
            escape(&object.name),
            goal.unwrap_or_default()
        );
        for judged in judged {
            let Some((mean, p95, arrays)) = of(judged, &object.name) else { continue };
            let width = |ms: f64| ms / most * 100.0;
            let _ = writeln!(
                body,
                "<tr><td>{}</td><td class=\"where\">{}</td><td class=\"bar\"><i class=\"p95\" style=\"width:{:.1}%\"></i>\
                 <i class=\"mean\" style=\"width:{:.1}%\"></i></td><td class=\"n\">{}, {}</td></tr>",
                escape(&judged.plan.name),
                escape(&arrays_text(&arrays)),
                width(p95),
                width(mean),
                grouped_decimals(mean, 2),
                grouped_decimals(p95, 1)
            );
        }
    }
    body.push_str("</table>\n");
    if objects.len() > CHARTED {
        let _ = writeln!(
            body,
            "<p>{} objects with fewer requests are not shown.</p>",
            objects.len() - CHARTED
        );
    }
}
