//! Plans in words.

use moirai_policy::Judgement;
use moirai_policy::search::Judged;

/// Arrays in few words.
pub(super) fn arrays_text(arrays: &[String]) -> String {
    match arrays {
        [] => "none".into(),
        [one] => one.clone(),
        [one, other] => format!("{one}, {other}"),
        [first, .., last] => format!("{first} ... {last} ({})", arrays.len()),
    }
}

/// Why the first plan is the best, in words.
pub(super) fn reason(judged: &[Judged]) -> String {
    let [best, others @ ..] = judged else { return String::new() };
    let name = &best.plan.name;
    let of = |wanted: &str| judged.iter().find(|judged| judged.plan.name == wanted);
    let Some(next) = of("wide").filter(|wide| wide.plan.name != *name).or(others.first()) else {
        return format!("Plan `{name}` is the only one.");
    };
    let (own, other) = (&best.judgement, &next.judgement);
    let percent = (1.0 - own.cost / other.cost.max(1e-9)) * 100.0;
    let goals = match (own.meets_goals, other.meets_goals) {
        (true, false) => format!(" It meets all goals; `{}` does not.", next.plan.name),
        _ => String::new(),
    };
    let widest = |judgement: &Judgement| {
        let all = judgement.disk_utilisation.iter().map(|disk| disk.utilisation);
        all.fold(0.0, f64::max) * 100.0
    };
    let objects = best.plan.objects.len().max(1);
    let arrays: usize = best.plan.objects.iter().map(|object| object.arrays.len()).sum();
    format!(
        "Plan `{name}` answers in {:.2} ms on average, {:.0} % {} than `{}` ({:.2} ms).{goals} An object \
         lies on {:.1} of {} arrays on average; the busiest disk works {:.0} % of the time, {:.0} % in `{}`.",
        own.cost,
        percent.abs(),
        if percent < 0.0 { "more" } else { "less" },
        next.plan.name,
        other.cost,
        arrays as f64 / objects as f64,
        best.plan.arrays.len(),
        widest(own),
        widest(other),
        next.plan.name,
    )
}
