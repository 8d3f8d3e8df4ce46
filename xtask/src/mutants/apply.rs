//! Puts a mutant into a copy of the sources.

use std::collections::BTreeMap;

use super::definition::{Change, Mutant};
use crate::lex::{Token, functions, lex};

/// Sources by their paths from the workspace's root.
pub(super) type Sources = BTreeMap<String, String>;

/// Whether the mutant may change the file: of the core for loom's models, and of any crate for whole-stack tests.
fn may_change(mutant: &Mutant, path: &str) -> bool {
    if mutant.whole {
        path.contains("/src/")
    } else {
        path.starts_with("gpufs-core/src/") || path == format!("gpufs-core/tests/{}.rs", mutant.test)
    }
}

/// What the mutant makes of the sources; what is wrong, if a text that it changes does not stand there exactly once.
pub(super) fn apply(mutant: &Mutant, sources: &Sources) -> Result<Sources, String> {
    let mut changed = Sources::new();
    for change in &mutant.changes {
        let mut hits = Vec::new();
        for (path, original) in sources {
            if path.ends_with(&change.file) && may_change(mutant, path) {
                let text = changed.get(path).unwrap_or(original);
                hits.extend(find(text, change).into_iter().map(|place| (path, place)));
            }
        }
        let [(path, place)] = &hits[..] else {
            return Err(format!(
                "in function '{}'{}{} its text stands {} times, not once:\n{}",
                change.function,
                if change.file.is_empty() { "" } else { " of " },
                change.file,
                hits.len(),
                change.old
            ));
        };
        let text = changed.get(*path).unwrap_or(&sources[*path]);
        let text = format!("{}{}{}", &text[..place.start], change.new, &text[place.end..]);
        changed.insert((*path).clone(), text);
    }
    Ok(changed)
}

/// Where the change's old text stands in functions of its name.
fn find(text: &str, change: &Change) -> Vec<std::ops::Range<usize>> {
    if !text.contains(&format!("fn {}", change.function)) {
        return Vec::new();
    }
    let rust = lex(text);
    let old = lex(&change.old).tokens;
    let same = |window: &&[Token]| window.iter().zip(&old).all(|(token, wanted)| token.text == wanted.text);
    let named = functions(&rust).into_iter().filter(|function| function.name == change.function);
    named
        .flat_map(|function| function.tokens.windows(old.len().max(1)).filter(same))
        .filter_map(|window| Some(window.first()?.place.start..window.last()?.place.end))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::definition::parse;
    use super::*;

    const MUTANTS: &str = "# A comment.\nmutant relaxed\nrow a row\ncaught lap\nin leave\n- self.word\n- .publish(1)\n+ self.word.set(1)\n\
                           in enter queue.rs\n- one();\n+\n";

    fn sources(queue: &str) -> Sources {
        [("src/queue.rs", queue), ("src/other.rs", "fn enter() { one(); }"), ("tests/model.rs", queue)]
            .map(|(path, text)| (format!("gpufs-core/{path}"), text.to_owned()))
            .into()
    }

    #[test]
    fn text_is_found_by_function_and_words() {
        let mutants = parse(MUTANTS, "loom").unwrap();
        let queue = "fn enter() { one(); }\nfn leave() { self\n  .word // why\n  .publish( 1 ); }\nfn other() { self.word.publish(1) }";
        let changed = apply(&mutants[0], &sources(queue)).unwrap();
        assert_eq!(changed.len(), 1);
        let words: String = changed["gpufs-core/src/queue.rs"].split_whitespace().collect();
        assert_eq!(words, "fnenter(){}fnleave(){self.word.set(1);}fnother(){self.word.publish(1)}");
    }

    #[test]
    fn text_that_is_gone_or_there_twice_is_named() {
        let mutants = parse(MUTANTS, "loom").unwrap();
        for (queue, times) in
            [("fn enter() { one(); }", 0), ("fn leave() { self.word.publish(1); self.word.publish(1) }", 2)]
        {
            let wrong = apply(&mutants[0], &sources(queue)).unwrap_err();
            assert!(wrong.contains("'leave'") && wrong.contains(&format!("stands {times} times")), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_definition_is_named() {
        for wrong in
            ["row x", "mutant a\nrow b\n- c", "mutant a\nrow b", "mutant a\nrow b\nin c\n- d\nmutant a"]
        {
            parse(wrong, "loom").unwrap_err();
        }
    }
}
