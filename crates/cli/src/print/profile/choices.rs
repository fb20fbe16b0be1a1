//! The strategy chosen for each operator, the estimates of the other strategies, and the reasons
//! against them.

use std::fmt::Write as _;

use pushdowndb_cost::units;
use pushdowndb_engine::{Decision, Measures, Profile};

use super::html::{Text, table};

/// Appends a table for each choice.
pub fn choices(page: &mut String, profile: &Profile) {
    let mut any = false;
    for operator in profile.operators() {
        for decision in &operator.decisions {
            any = true;
            let (of, title) = (Text(&decision.operator), Text(&operator.title));
            let _ = writeln!(page, "<h4><code>{of}</code> for {title}</h4>");
            choice(page, decision);
        }
    }
    if !any {
        page.push_str("<p>There was nothing to choose: storage cannot be asked for more than bytes.</p>\n");
    }
}

fn choice(page: &mut String, decision: &Decision) {
    let taken = row(&decision.taken, decision.estimate.as_ref(), "taken", &decision.why);
    let losers = decision.losers.iter().map(|(name, estimate)| {
        let why = decision.estimate.as_ref().map(|taken| beside(estimate, taken));
        row(name, Some(estimate), "lost", &why.unwrap_or_default())
    });
    let refused = decision.refused.iter().map(|(name, why)| row(name, None, "will not do", why));
    let rows = std::iter::once(taken).chain(losers).chain(refused);
    table(page, "choices", ["Strategy", "Outcome", "Network", "Requests", "Time", "Cost"], rows);
}

fn row(name: &str, estimate: Option<&Measures>, outcome: &str, why: &str) -> [String; 6] {
    let shown = |show: &dyn Fn(&Measures) -> Option<String>| estimate.and_then(show).unwrap_or_default();
    let why = if why.is_empty() { String::new() } else { format!(": {}", Text(why)) };
    let class = if outcome == "taken" { "taken" } else { "lost" };
    [
        format!("<code>{}</code>", Text(name)),
        format!("<b class=\"{class}\">{outcome}</b>{why}"),
        shown(&|measures| measures.bytes.map(units::bytes)),
        shown(&|measures| measures.requests.map(units::count)),
        shown(&|measures| measures.seconds.map(units::seconds)),
        shown(&|measures| measures.usd.map(units::dollars)),
    ]
}

/// Describes the estimate of a rejected strategy relative to the chosen one.
fn beside(lost: &Measures, taken: &Measures) -> String {
    let measures: [(&str, Option<f64>, Option<f64>); 3] = [
        ("time", lost.seconds, taken.seconds),
        ("bytes", lost.bytes.map(|bytes| bytes as f64), taken.bytes.map(|bytes| bytes as f64)),
        ("cost", lost.usd, taken.usd),
    ];
    let ratios = measures.into_iter().filter_map(|(name, lost, taken)| {
        let ratio = lost? / taken.filter(|taken| *taken > 0.0)?;
        match ratio {
            _ if (0.95..1.05).contains(&ratio) => Some(format!("the same {name}")),
            more if more > 1.0 => Some(format!("{} the {name}", units::factor(more, 1.0))),
            less => Some(format!("{:.0} % of the {name}", less * 100.0)),
        }
    });
    ratios.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losers_are_held_against_the_winner() {
        let of = |seconds, bytes, usd| Measures { seconds, bytes, usd, ..Measures::default() };
        let taken = of(Some(2.0), Some(100), Some(0.5));
        assert_eq!(
            beside(&of(Some(5.0), Some(101), Some(0.1)), &taken),
            "2.5× the time, the same bytes, 20 % of the cost"
        );
        assert_eq!(beside(&of(None, Some(1_000), None), &taken), "10× the bytes");
        assert_eq!(beside(&taken, &of(Some(0.0), None, None)), "", "nothing to hold it against");
    }
}
