//! Phrases that may not occur in code, save on a line that says why.

use super::Violation;
use super::rust_text::occurrences;
use super::tree::File;

/// One violation for each line and phrase, `reason` being why the phrase is forbidden and what to
/// use in its place.
pub(super) fn find(file: &File, phrases: &[&str], reason: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, (text, code)) in file.text.lines().zip(file.code.lines()).enumerate() {
        for phrase in phrases {
            if occurrences(code, phrase).next().is_some() && !is_exempt(text) {
                violations.push(Violation::new(
                    &file.path,
                    index + 1,
                    format!(
                        "`{phrase}` {reason}, or say on this line why not: `// tidy: allow(REASON)`"
                    ),
                ));
            }
        }
    }
    violations
}

/// Whether the line ends in `// tidy: allow(REASON)` with a reason in it.
fn is_exempt(line: &str) -> bool {
    line.split_once("// tidy: allow(")
        .and_then(|(_, rest)| rest.trim_end().strip_suffix(')'))
        .is_some_and(|reason| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exemption_needs_a_reason() {
        assert!(is_exempt("f(); // tidy: allow(a peer (in C) is timed here)"));
        assert!(!is_exempt("f(); // tidy: allow()"));
        assert!(!is_exempt("f(); // tidy: allow( )"));
        assert!(!is_exempt("f(); // tidy: allow"));
        assert!(!is_exempt("f();"));
    }
}
