//! Where in a file's text a mutant stands: the whole expression of an operator, the pattern of an arm.

use std::collections::BTreeMap;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::listed::Genre;

/// Bytes of a file's text.
type Bytes = Range<usize>;

/// What stands around that which a mutant replaces.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Of an operator between two operands: the expression, and the operator.
    Binary { whole: Bytes, operator: Bytes },
    /// Of an operator before one: the expression, and the operand.
    Unary { whole: Bytes, operand: Bytes },
    /// Of an arm: its pattern, and its guard.
    Arm { pattern: Bytes, guard: Option<Bytes> },
    /// Of a guard.
    Guard(Bytes),
    /// Of a field in a structure's expression: its value, its name, whether the name is all there is of it, and the expression's base.
    Field { value: Bytes, name: String, shorthand: bool, base: Bytes },
}

/// Those of a file, each by its kind and the byte at which cargo-mutants says that it begins.
pub(super) type Places = BTreeMap<(Genre, usize), Place>;

/// All places of a text.
///
/// # Errors
/// Where the text does not parse.
pub(super) fn places(text: &str) -> Result<Places, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut visitor = Visitor { places: Places::new() };
    visitor.visit_file(&file);
    Ok(visitor.places)
}

struct Visitor {
    places: Places,
}

fn bytes(what: &impl Spanned) -> Bytes {
    what.span().byte_range()
}

/// Whether it is a chain of conditions one of which binds a pattern: such a chain stands in no parentheses.
fn binds(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

impl Visit<'_> for Visitor {
    fn visit_expr(&mut self, expression: &syn::Expr) {
        match expression {
            syn::Expr::Binary(binary) if !binds(expression) => {
                let operator = bytes(&binary.op);
                let place = Place::Binary { whole: bytes(binary), operator: operator.clone() };
                self.places.insert((Genre::BinaryOperator, operator.start), place);
            }
            syn::Expr::Unary(unary) => {
                let place = Place::Unary { whole: bytes(unary), operand: bytes(&unary.expr) };
                self.places.insert((Genre::UnaryOperator, bytes(&unary.op).start), place);
            }
            syn::Expr::Struct(structure) => {
                if let Some(base) = &structure.rest {
                    for field in &structure.fields {
                        let place = Place::Field {
                            value: bytes(&field.expr),
                            name: match &field.member {
                                syn::Member::Named(name) => name.to_string(),
                                syn::Member::Unnamed(index) => index.index.to_string(),
                            },
                            shorthand: field.colon_token.is_none(),
                            base: bytes(base),
                        };
                        self.places.insert((Genre::StructField, bytes(field).start), place);
                    }
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expression);
    }
    fn visit_arm(&mut self, arm: &syn::Arm) {
        let guard = arm.guard.as_ref().map(|(_, guard)| guard);
        // What binds a pattern cannot be part of a longer guard.
        if !guard.is_some_and(|guard| binds(guard)) {
            let guard = guard.map(bytes);
            let place = Place::Arm { pattern: bytes(&arm.pat), guard: guard.clone() };
            self.places.insert((Genre::MatchArm, bytes(arm).start), place);
            if let Some(guard) = guard {
                self.places.insert((Genre::MatchArmGuard, guard.start), Place::Guard(guard));
            }
        }
        visit::visit_arm(self, arm);
    }
    /// Patterns hold expressions that are no code.
    fn visit_pat(&mut self, _: &syn::Pat) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn f(a: u32) -> u32 { if let Some(b) = g(a) && a + 1 < b { return !a; }
        match a { 1 | 2 if a == 1 => 3, -1 => 0, _ => S { x: 4, a, ..T }.x } }";

    #[test]
    fn places_are_whole_expressions() {
        let places = places(TEXT).expect("it is Rust");
        let found: Vec<(Genre, &str)> = places
            .iter()
            .map(|(&(genre, _), place)| match place {
                Place::Binary { whole, .. } | Place::Unary { whole, .. } => (genre, &TEXT[whole.clone()]),
                Place::Arm { pattern, .. } => (genre, &TEXT[pattern.clone()]),
                Place::Guard(guard) => (genre, &TEXT[guard.clone()]),
                Place::Field { value, .. } => (genre, &TEXT[value.clone()]),
            })
            .collect();
        use Genre::{BinaryOperator, MatchArm, MatchArmGuard, StructField, UnaryOperator};
        assert_eq!(
            found,
            [
                (BinaryOperator, "a + 1"),
                (BinaryOperator, "a + 1 < b"),
                (BinaryOperator, "a == 1"),
                (UnaryOperator, "!a"),
                (MatchArm, "1 | 2"),
                (MatchArm, "-1"),
                (MatchArm, "_"),
                (MatchArmGuard, "a == 1"),
                (StructField, "4"),
                (StructField, "a"),
            ]
        );
    }
}
