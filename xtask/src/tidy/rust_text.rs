//! Rust source as the checks see it: code without comments and literals, searched by whole words.

/// `source` with each comment, string and character literal replaced by spaces, byte for byte and
/// with its line breaks, so that an offset or a line number means the same place in both.
pub(super) fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    let mut is_in_word = false;
    while let Some(first) = rest.chars().next() {
        if let Some(tail) = after_hidden(rest, is_in_word) {
            let hidden = rest.bytes().take(rest.len() - tail.len());
            code.extend(hidden.map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            rest = tail;
            is_in_word = false;
        } else {
            code.push(first);
            rest = after_char(rest);
            is_in_word = is_word_char(first);
        }
    }
    code
}

/// What follows the comment or literal at the start of `rest`, `None` when there is none.
/// One that is not closed reaches to the end.
fn after_hidden(rest: &str, is_in_word: bool) -> Option<&str> {
    if rest.starts_with("//") {
        Some(rest.find('\n').map_or("", |end| rest.split_at(end).1))
    } else if rest.starts_with("/*") {
        Some(after_block_comment(rest))
    } else if rest.starts_with('"') {
        Some(after_string(rest))
    } else if rest.starts_with('\'') {
        after_char_literal(rest)
    } else if is_in_word {
        None
    } else {
        after_raw_string(rest)
    }
}

/// Block comments nest.
fn after_block_comment(rest: &str) -> &str {
    let mut depth = 0_usize;
    let mut tail = rest;
    while !tail.is_empty() {
        if let Some(inner) = tail.strip_prefix("/*") {
            depth += 1;
            tail = inner;
        } else if let Some(outer) = tail.strip_prefix("*/") {
            depth -= 1;
            tail = outer;
            if depth == 0 {
                break;
            }
        } else {
            tail = after_char(tail);
        }
    }
    tail
}

fn after_string(rest: &str) -> &str {
    let mut chars = after_char(rest).chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => drop(chars.next()),
            '"' => break,
            _ => {}
        }
    }
    chars.as_str()
}

/// `None` for a lifetime, which has no quote after its first letter.
fn after_char_literal(rest: &str) -> Option<&str> {
    let body = after_char(rest);
    if let Some(escape) = body.strip_prefix('\\') {
        let (_, tail) = after_char(escape).split_once('\'')?;
        return Some(tail);
    }
    after_char(body).strip_prefix('\'')
}

fn after_raw_string(rest: &str) -> Option<&str> {
    let body = ["r", "br", "cr"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let text = body.trim_start_matches('#');
    let closing = format!("\"{}", "#".repeat(body.len() - text.len()));
    let text = text.strip_prefix('"')?;
    Some(text.split_once(&closing).map_or("", |(_, tail)| tail))
}

fn after_char(text: &str) -> &str {
    let mut chars = text.chars();
    chars.next();
    chars.as_str()
}

pub(super) fn is_word_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The byte offsets at which `phrase` stands in `code` by itself, not as part of a longer name.
pub(super) fn occurrences(code: &str, phrase: &str) -> impl Iterator<Item = usize> {
    let starts_word = phrase.starts_with(is_word_char);
    let ends_word = phrase.ends_with(is_word_char);
    code.match_indices(phrase).filter_map(move |(offset, found)| {
        let before = code.get(..offset).unwrap_or_default();
        let after = code.get(offset + found.len()..).unwrap_or_default();
        let is_part_of_name = (starts_word && before.ends_with(is_word_char))
            || (ends_word && after.starts_with(is_word_char));
        (!is_part_of_name).then_some(offset)
    })
}

/// The offset of the first of the `wanted` characters that no bracket opened in `code` encloses;
/// `None` as well when the bracket around all of `code` closes before.
pub(super) fn find_outside_brackets(code: &str, wanted: &[char]) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, char) in code.char_indices() {
        if depth == 0 && wanted.contains(&char) {
            return Some(offset);
        }
        match char {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// The number, from 1, of the line that holds the byte at `offset`.
pub(super) fn line_number_at(text: &str, offset: usize) -> usize {
    let newline_count = text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
    newline_count + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that of `source` the words of `code` are left, and that its length is kept.
    fn check(source: &str, code: &str) {
        let found = code_only(source);
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), code, "{source:?}");
        assert_eq!(found.len(), source.len(), "{source:?}");
    }

    #[test]
    fn comments_are_hidden() {
        check("a // x\nb", "a b");
        check("a //! x", "a");
        check("a /* x /* x */ x */ b", "a b");
        check("a /* x", "a");
        check("a / b", "a / b");
    }

    #[test]
    fn literals_are_hidden() {
        check(r#"a("x // x", b)"#, "a( , b)");
        check(r#"a("x \" x \\", b)"#, "a( , b)");
        check(r"a('x', '\'', '\u{78}', b)", "a( , , , b)");
        check("a('\"', b)", "a( , b)");
        check("a \"x", "a");
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        check("a r#\"x \" x\"# b", "a b");
        check("a br\"x\\\" b", "a b");
        check("let r#type = for_r;", "let r#type = for_r;");
    }

    #[test]
    fn lifetimes_are_code() {
        let source = "fn f<'a>(s: &'a str, c: &'static str) -> &'a str";
        check(source, source);
    }

    #[test]
    fn line_breaks_and_offsets_stay() {
        let source = "let s = \"é\nè\";\nnext";
        let code = code_only(source);
        assert_eq!(code.find("next"), source.find("next"));
        assert_eq!(line_number_at(&code, code.find("next").unwrap()), 3);
    }

    #[test]
    fn phrases_match_whole_words_only() {
        let code = "MyHashMap HashMap<u8> HashMapper HashMap";
        assert_eq!(occurrences(code, "HashMap").collect::<Vec<_>>(), [10, 33]);
        assert_eq!(occurrences("grand::rng( rand::rng(x", "rand::rng(").count(), 1);
    }

    #[test]
    fn brackets_enclose() {
        assert_eq!(find_outside_brackets("[u8; 2] = [0; 2];", &[';']), Some(16));
        assert_eq!(find_outside_brackets("a) ;", &[';']), None);
    }
}
