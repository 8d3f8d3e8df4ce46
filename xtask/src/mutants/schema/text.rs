//! A file's text in which each mutant stands beside what it replaces, and a switch says which is meant.

use std::ops::Range;

use super::listed::{Genre, Mutant};
use super::place::{Place, Places};

/// What is put into the text for mutants of one place.
#[derive(Debug)]
struct Insertion {
    /// The text that it stands around; empty where it stands between two characters.
    around: Range<usize>,
    /// What comes before, in parts; a part that is a mutant's own has its number.
    before: Vec<(Option<u32>, String)>,
    after: &'static str,
    numbers: Vec<u32>,
}

/// Where mutants are in the text that was made.
#[derive(Debug)]
pub(super) struct Region {
    /// All that stands around one place, and what it stands around.
    whole: Range<usize>,
    /// What is of one mutant alone.
    own: Vec<(u32, Range<usize>)>,
}

/// A text with switches.
#[derive(Debug, Default)]
pub(super) struct Switched {
    pub(super) text: String,
    pub(super) regions: Vec<Region>,
    /// Mutants of which no place was found, or that no switch can be made for.
    pub(super) without: Vec<u32>,
}

impl Switched {
    /// The mutants that an error at these bytes of the text is of: the one whose own text they are in, otherwise all of the smallest place; where
    /// there is none, those between the error and what the compiler would put there, as it would arms of a match.
    pub(super) fn blamed(&self, bytes: &Range<usize>, advice_end: usize) -> Vec<u32> {
        let own = self.regions.iter().flat_map(|region| &region.own);
        let inside = |range: &Range<usize>| range.start <= bytes.start && bytes.start < range.end;
        if let Some((number, _)) = own.filter(|(_, range)| inside(range)).min_by_key(|(_, range)| range.len())
        {
            return vec![*number];
        }
        let around = self.regions.iter().filter(|region| inside(&region.whole));
        let numbers = |region: &Region| region.own.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        around.min_by_key(|region| region.whole.len()).map_or_else(
            || {
                let between =
                    |region: &&Region| bytes.start <= region.whole.start && region.whole.end <= advice_end;
                self.regions.iter().filter(between).flat_map(numbers).collect()
            },
            numbers,
        )
    }
}

/// Puts the mutants, each with its number and the bytes that it replaces, into `text`. `switch` is the function that says whether a mutant is on.
pub(super) fn switched(
    text: &str,
    places: &Places,
    mutants: &[(u32, &Mutant, Range<usize>)],
    switch: &str,
) -> Switched {
    let mut made = Switched::default();
    let mut insertions: Vec<Insertion> = Vec::new();
    for (number, mutant, range) in mutants {
        let on = format!("{switch}({number})");
        let Some(insertion) = insertion(text, places, (*number, mutant, range), &on) else {
            made.without.push(*number);
            continue;
        };
        let same = insertions.iter_mut().find(|known| {
            // Two that end alike are alternatives of one expression.
            known.around == insertion.around
                && known.after == insertion.after
                && known.after == ALTERNATIVE_END
        });
        if let Some(known) = same {
            // Before the last part, which begins what was there.
            let place = known.before.len() - 1;
            let middle = insertion.before.len() - 1;
            known.before.splice(place..place, insertion.before.into_iter().take(middle).skip(1));
            known.numbers.push(*number);
        } else {
            insertions.push(insertion);
        }
    }
    emit(text, &insertions, &mut made);
    made
}

/// How an expression with alternatives ends.
const ALTERNATIVE_END: &str = ")})";

/// `whole`, or where the switch is on `alternative`; a field of a structure has its name before it.
fn alternative(whole: &Range<usize>, number: u32, on: &str, other: &str, name: &str) -> Insertion {
    let before = vec![
        (None, format!("{name}(")),
        (Some(number), format!("if {on} {{({other})}} else ")),
        (None, "{(".to_owned()),
    ];
    Insertion { around: whole.clone(), before, after: ALTERNATIVE_END, numbers: vec![number] }
}

/// Between two characters.
fn at(offset: usize, number: u32, text: String) -> Insertion {
    Insertion { around: offset..offset, before: vec![(Some(number), text)], after: "", numbers: vec![number] }
}

fn insertion(
    text: &str,
    places: &Places,
    (number, mutant, range): (u32, &Mutant, &Range<usize>),
    on: &str,
) -> Option<Insertion> {
    if mutant.genre == Genre::FnValue {
        return Some(at(range.start, number, format!("if {on} {{ return {}; }} ", mutant.replacement)));
    }
    let place = places.get(&(mutant.genre, range.start))?;
    Some(match place {
        Place::Binary { whole, operator } => {
            let (left, right) = (&text[whole.start..operator.start], &text[operator.end..whole.end]);
            alternative(whole, number, on, &format!("{left}{}{right}", mutant.replacement), "")
        }
        Place::Unary { whole, operand } => alternative(whole, number, on, &text[operand.clone()], ""),
        Place::Guard(guard) => alternative(guard, number, on, &mutant.replacement, ""),
        Place::Field { value, name, shorthand, base } => {
            let label = if *shorthand { format!("{name}: ") } else { String::new() };
            alternative(value, number, on, &format!("({}).{name}", &text[base.clone()]), &label)
        }
        Place::Arm { pattern, guard: None } => at(pattern.end, number, format!(" if !{on}")),
        Place::Arm { guard: Some(guard), .. } => Insertion {
            around: guard.clone(),
            before: vec![(Some(number), format!("!{on} && ("))],
            after: ")",
            numbers: vec![number],
        },
    })
}

/// Writes the text with all insertions, which lie within each other or apart.
fn emit(text: &str, insertions: &[Insertion], made: &mut Switched) {
    /// At one offset, what ends comes first, then what stands between, then what begins.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Order {
        /// The inner before the outer: the later its beginning, the sooner.
        Ends(std::cmp::Reverse<usize>, std::cmp::Reverse<usize>),
        Between(usize),
        /// The outer before the inner.
        Begins(std::cmp::Reverse<usize>, usize),
    }
    let mut events: Vec<(usize, Order, usize)> = Vec::new();
    for (index, insertion) in insertions.iter().enumerate() {
        let Range { start, end } = insertion.around;
        if start == end {
            events.push((start, Order::Between(index), index));
        } else {
            let (late, early) = (std::cmp::Reverse(end), std::cmp::Reverse(start));
            events.push((start, Order::Begins(late, index), index));
            events.push((end, Order::Ends(early, std::cmp::Reverse(index)), index));
        }
    }
    events.sort();
    let regions = insertions.iter().map(|_| Region { whole: 0..0, own: Vec::new() });
    made.regions = regions.collect();
    let mut written = 0;
    for (offset, order, index) in events {
        made.text.push_str(&text[written..offset]);
        written = offset;
        let (insertion, region) = (&insertions[index], &mut made.regions[index]);
        if matches!(order, Order::Ends(..)) {
            made.text.push_str(insertion.after);
        } else {
            region.whole.start = made.text.len();
            for (number, part) in &insertion.before {
                let start = made.text.len();
                made.text.push_str(part);
                if let Some(number) = number {
                    region.own.push((*number, start..made.text.len()));
                }
            }
        }
        region.whole.end = made.text.len();
    }
    made.text.push_str(&text[written..]);
}

#[cfg(test)]
mod tests {
    use super::super::listed::Lines;
    use super::super::place::places;
    use super::*;

    /// The text with a switch for each of what `what` finds: a genre, the text that it replaces, and by what.
    fn made(text: &str, what: &[(Genre, &str, &str)]) -> Switched {
        let mutants: Vec<Mutant> = what
            .iter()
            .map(|(genre, replaced, by)| {
                let column = text.find(replaced).expect("it is there") + 1;
                Mutant::new(*genre, by, [(1, column), (1, column + replaced.len())])
            })
            .collect();
        let numbered: Vec<_> = (0..)
            .zip(&mutants)
            .map(|(number, mutant)| (number, mutant, mutant.range(&Lines::of(text))))
            .collect();
        switched(text, &places(text).expect("it is Rust"), &numbered, "on")
    }

    #[test]
    fn mutants_stand_beside_what_they_replace() {
        let text = "fn f() -> u32 { a + b * c }";
        let result = made(
            text,
            &[
                (Genre::FnValue, "a + b * c", "0"),
                (Genre::BinaryOperator, "+", "-"),
                (Genre::BinaryOperator, "*", "/"),
                (Genre::BinaryOperator, "+", "%"),
            ],
        );
        let expected = "fn f() -> u32 { if on(0) { return 0; } (if on(1) {(a - b * c)} else if on(3) {(a % b * c)} else {(a + \
                        (if on(2) {(b / c)} else {(b * c)}))}) }";
        assert_eq!(result.text, expected);
        let of = |part: &str| {
            let start = expected.find(part).expect("it is there");
            result.blamed(&(start..start + 1), 0)
        };
        assert_eq!(of("return 0"), [0]);
        assert_eq!(of("- b * c"), [1]);
        assert_eq!(of("% b"), [3]);
        assert_eq!(of("/ c"), [2]);
        assert_eq!(of("(b * c)})"), [2]);
        assert_eq!(of("fn f"), [0_u32; 0]);
        let all = expected.len();
        assert_eq!(result.blamed(&(0..2), all).len(), 4);
    }

    #[test]
    fn arms_guards_and_fields_are_switched() {
        let text = "fn f() { match x { 1 => 2, 3 if y => 4, _ => S { p: !q, r, ..T }.p } }";
        let result = made(
            text,
            &[
                (Genre::MatchArm, "1 => 2", ""),
                (Genre::MatchArm, "3 if y", ""),
                (Genre::MatchArmGuard, "y", "true"),
                (Genre::UnaryOperator, "!", ""),
                (Genre::StructField, "p:", ""),
                (Genre::StructField, "r,", ""),
            ],
        );
        assert!(result.without.is_empty(), "{:?}", result.without);
        let expected = "fn f() { match x { 1 if !on(0) => 2, 3 if !on(1) && ((if on(2) {(true)} else {(y)})) => 4, _ => S { p: (if on(3) {(q)} \
                        else if on(4) {((T).p)} else {(!q)}), r: (if on(5) {((T).r)} else {(r)}), ..T }.p } }";
        assert_eq!(result.text, expected);
        assert!(syn::parse_file(&result.text).is_ok());
    }

    #[test]
    fn what_has_no_place_is_named() {
        let result = made("fn f() { if let Some(x) = y && z {} }", &[(Genre::BinaryOperator, "&&", "||")]);
        assert_eq!(result.without, [0]);
    }
}
