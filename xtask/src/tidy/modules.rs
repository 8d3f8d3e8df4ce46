//! The modules of a crate, and what each imports from the others: by `use`, and by paths in code.
//!
//! A name that a module has by `use` stands for what it names there, so that an import by way of a folder's `mod.rs` counts as one of the
//! module that defines the name.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;
use crate::lex::{Kind, Rust, Token};

/// A module, by the names on its way from the root of the crate; the root has none.
pub(super) type Module = Vec<String>;

/// That one module names another, or something in it.
pub(super) struct Import {
    pub(super) from: Module,
    pub(super) to: Module,
    pub(super) path: String,
    pub(super) line: usize,
    /// A folder's `mod.rs` shows on what its own modules define.
    pub(super) shown_on: bool,
}

/// What a file names, before it is known what the names stand for.
struct Named {
    from: Module,
    /// Absolute, from the root on.
    names: Vec<String>,
    alias: Option<String>,
    public: bool,
    line: usize,
    path: String,
}

/// All modules of a crate and their imports.
pub(super) struct Crate {
    pub(super) modules: BTreeSet<Module>,
    pub(super) imports: Vec<Import>,
}

/// Reads the crate whose sources lie in `folder`, such as `gpufs-core/src`.
pub(super) fn read(tree: &Tree, folder: &str) -> Crate {
    let mut files = Vec::new();
    for (file, rust) in tree.rust() {
        let inside = file.path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        let Some(inside) = inside.and_then(|rest| rest.strip_suffix(".rs")) else { continue };
        let mut module: Module = inside.split('/').map(str::to_owned).collect();
        // Programs are crates of their own.
        if module.first().is_some_and(|name| name == "bin") {
            continue;
        }
        if module.last().is_some_and(|name| name == "mod")
            || matches!(&module[..], [name] if name == "lib" || name == "main")
        {
            module.pop();
        }
        files.push((module, file.path.clone(), rust));
    }
    let modules: BTreeSet<Module> = files.iter().map(|(module, ..)| module.clone()).collect();
    let mut named = Vec::new();
    let mut uses = BTreeMap::new();
    for (module, path, rust) in &files {
        if module.iter().any(|name| is_test(name)) {
            continue;
        }
        let mut reader = Reader { modules: &modules, module, path, named: Vec::new() };
        reader.read(&rust.tokens);
        for name in exported_macros(rust) {
            uses.insert((Module::new(), name), module.clone());
        }
        for entry in &reader.named {
            if let Some(alias) = &entry.alias {
                uses.insert((entry.from.clone(), alias.clone()), entry.names.clone());
            }
        }
        named.extend(reader.named);
    }
    let imports = named.into_iter().map(|entry| {
        let to = resolve(&modules, &uses, &entry.names, 8);
        let shown_on = entry.public && to.starts_with(&entry.from);
        Import { from: entry.from, to, path: entry.path, line: entry.line, shown_on }
    });
    let imports = imports.filter(|import| import.from != import.to).collect();
    Crate { modules, imports }
}

/// Tests may import what they like.
fn is_test(name: &str) -> bool {
    name == "tests" || name == "test"
}

/// The module that defines what `names` lead to.
fn resolve(
    modules: &BTreeSet<Module>,
    uses: &BTreeMap<(Module, String), Vec<String>>,
    names: &[String],
    steps: usize,
) -> Module {
    let mut module = Module::new();
    for (index, name) in names.iter().enumerate() {
        let mut next = module.clone();
        next.push(name.clone());
        if modules.contains(&next) {
            module = next;
        } else if let (Some(meant), true) = (uses.get(&(module.clone(), name.clone())), steps > 0) {
            let mut meant = meant.clone();
            meant.extend_from_slice(&names[index + 1..]);
            return resolve(modules, uses, &meant, steps - 1);
        } else {
            break;
        }
    }
    module
}

/// Macros that are exported, and so stand at the root.
fn exported_macros(rust: &Rust) -> Vec<String> {
    let exported = rust.tokens.iter().any(|token| token.is("macro_export"));
    let defined = rust.tokens.windows(3).filter(|window| window[0].is("macro_rules") && window[1].is("!"));
    defined.filter(|_| exported).map(|window| window[2].text.to_string()).collect()
}

/// Goes through a file's tokens.
struct Reader<'a> {
    modules: &'a BTreeSet<Module>,
    module: &'a Module,
    path: &'a str,
    named: Vec<Named>,
}

impl Reader<'_> {
    fn read(&mut self, tokens: &[Token]) {
        // Modules that are written out here, and the depth of braces that each is in.
        let mut inline: Vec<(String, usize)> = Vec::new();
        let (mut depth, mut index) = (0_usize, 0);
        let mut public = false;
        while let Some(token) = tokens.get(index) {
            let next = |ahead: usize| tokens.get(index + ahead);
            // In a macro the name may be `$name`.
            let sign = usize::from(next(1).is_some_and(|sign| sign.is("$")));
            if token.is("mod") && next(2 + sign).is_some_and(|brace| brace.is("{")) {
                let name = next(1 + sign).map(|name| name.text.to_string());
                inline.push((name.unwrap_or_default(), depth));
                index += 2 + sign;
                continue;
            }
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                depth = depth.saturating_sub(1);
                inline.pop_if(|(_, outside)| *outside == depth);
            }
            public = token.is("pub") || (public && !token.is(";") && !token.is("{") && !token.is("}"));
            if inline.iter().any(|(name, _)| is_test(name)) {
                index += 1;
                continue;
            }
            let inside: Vec<String> = inline.iter().map(|(name, _)| name.clone()).collect();
            if token.is("use") {
                let end = tokens[index..]
                    .iter()
                    .position(|token| token.is(";"))
                    .map_or(tokens.len(), |at| index + at);
                self.tree(&tokens[index + 1..end], &[], &inside, public);
                index = end;
                continue;
            }
            index += self.path_in_code(tokens, index, &inside);
        }
    }

    /// What a path in code names, if one begins at `index`. How many tokens are done.
    fn path_in_code(&mut self, tokens: &[Token], index: usize, inside: &[String]) -> usize {
        let begins = tokens[index].kind == Kind::Word
            && tokens.get(index + 1).is_some_and(|token| token.is("::"))
            && !index.checked_sub(1).is_some_and(|before| tokens[before].is("::") || tokens[before].is("."));
        if !begins {
            return 1;
        }
        let mut names = vec![tokens[index].text.to_string()];
        let mut at = index + 1;
        while let [sign, word, ..] = &tokens[at.min(tokens.len())..] {
            if !sign.is("::") || word.kind != Kind::Word {
                break;
            }
            names.push(word.text.to_string());
            at += 2;
        }
        self.note(&names, None, inside, false, tokens[index].line);
        at - index
    }

    /// A tree of `use`, behind the names before it.
    fn tree(&mut self, tokens: &[Token], before: &[String], inside: &[String], public: bool) {
        let mut names = before.to_vec();
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            if token.is("{") {
                for branch in branches(&tokens[index + 1..tokens.len() - 1]) {
                    self.tree(branch, &names, inside, public);
                }
                return;
            }
            if token.is("as") {
                break;
            }
            if token.kind == Kind::Word {
                names.push(token.text.to_string());
            }
            index += 1;
        }
        let Some(first) = tokens.first() else { return };
        let alias = match &tokens[index.min(tokens.len())..] {
            [_, alias] => Some(alias.text.to_string()),
            _ if tokens.last().is_some_and(|last| last.is("*")) => None,
            _ => names.last().cloned(),
        };
        if names.last().is_some_and(|last| last == "self") {
            names.pop();
        }
        let alias = alias.and_then(|alias| if alias == "self" { names.last().cloned() } else { Some(alias) });
        self.note(&names, alias, inside, public, first.line);
    }

    /// Notes a path, if it stays in the crate.
    fn note(
        &mut self,
        names: &[String],
        alias: Option<String>,
        inside: &[String],
        public: bool,
        line: usize,
    ) {
        let mut here = self.module.clone();
        here.extend_from_slice(inside);
        let mut rest = names;
        let mut base = None;
        while let Some(first) = rest.first() {
            match first.as_str() {
                "crate" => base = Some(Module::new()),
                "self" => base = base.or_else(|| Some(here.clone())),
                "super" => {
                    let mut above = base.unwrap_or_else(|| here.clone());
                    above.pop();
                    base = Some(above);
                }
                _ => break,
            }
            rest = &rest[1..];
        }
        if base.is_none() {
            // A module below this one; else another crate, or a name that `use` has brought in and that was noted there.
            let mut child = here.clone();
            child.extend(rest.first().cloned());
            if !self.modules.contains(&child) {
                return;
            }
            base = Some(here.clone());
        }
        let mut absolute = base.unwrap_or_default();
        absolute.extend_from_slice(rest);
        let from = self.module.clone();
        let alias = alias.filter(|_| inside.is_empty());
        self.named.push(Named { from, names: absolute, alias, public, line, path: self.path.to_owned() });
    }
}

/// Splits at the commas that stand in no braces.
fn branches(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut depth, mut start) = (0_usize, 0);
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.is("{") {
            depth += 1;
        } else if token.is("}") {
            depth = depth.saturating_sub(1);
        } else if token.is(",") && depth == 0 {
            found.push(&tokens[start..index]);
            start = index + 1;
        }
    }
    found.push(&tokens[start..]);
    found.retain(|branch| !branch.is_empty());
    found
}
