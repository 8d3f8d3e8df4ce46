//! What the checks let pass today: `xtask/tidy/exceptions.txt`. It may only shrink: what no longer needs its line, or so much of it, fails too.

use super::finding::Finding;

/// Checks that may have exceptions. Of an atomic each says why.
const EXCEPTABLE: &[&str] =
    &["allow", "atomic", "file-lines", "function-lines", "import", "line-length", "unsafe-block"];

/// A line of the list: `CHECK AMOUNT SUBJECT # REASON`.
struct Exception<'a> {
    check: &'a str,
    amount: usize,
    subject: &'a str,
    reason: Option<&'a str>,
}

impl<'a> Exception<'a> {
    /// What the line says, or why it says nothing; `None` of a line that is empty or a comment.
    fn parse(line: &'a str) -> Option<Result<Self, String>> {
        let (rule, reason) = match line.split_once('#') {
            Some((rule, reason)) => (rule, Some(reason.trim())),
            None => (line, None),
        };
        let rule = rule.trim();
        if rule.is_empty() {
            return None;
        }
        let mut words = rule.splitn(3, ' ');
        let read = (|| {
            let (check, amount) = (words.next()?, words.next()?.parse().ok()?);
            Some(Self { check, amount, subject: words.next()?.trim(), reason })
        })();
        let Some(exception) = read else {
            return Some(Err(format!("'{rule}' is not CHECK AMOUNT SUBJECT")));
        };
        if !EXCEPTABLE.contains(&exception.check) {
            return Some(Err(format!("'{rule}': only {} can have exceptions", EXCEPTABLE.join(", "))));
        }
        if exception.check == "atomic" && exception.reason.is_none_or(str::is_empty) {
            return Some(Err(format!("'{rule}': say why, after a #")));
        }
        Some(Ok(exception))
    }

    fn is_of(&self, finding: &Finding) -> bool {
        self.check == finding.check && self.subject == finding.subject
    }
}

/// What is wrong: findings that the list does not let pass, and lines of the list that no longer say what is there.
pub(super) fn compare(list: &str, path: &str, findings: &[Finding]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut exceptions = Vec::new();
    for (number, line) in (1..).zip(list.lines()) {
        match Exception::parse(line) {
            Some(Ok(exception)) => exceptions.push((number, exception)),
            Some(Err(why)) => wrong.push(format!("{path}:{number}: {why}")),
            None => {}
        }
    }
    for finding in findings {
        let Finding { check, subject, at, advice, .. } = finding;
        match exceptions.iter().find(|(_, exception)| exception.is_of(finding)) {
            Some((_, exception)) if exception.amount >= finding.amount => {}
            Some((number, Exception { amount, .. })) => wrong.push(format!(
                "{at}: [{check}] {subject} {advice}. {path}:{number} lets {amount} pass, and may only shrink"
            )),
            None => wrong.push(format!("{at}: [{check}] {subject} {advice}")),
        }
    }
    for (number, exception) in &exceptions {
        let amount = findings.iter().find(|finding| exception.is_of(finding)).map_or(0, |found| found.amount);
        if amount < exception.amount {
            let Exception { check, subject, amount: listed, .. } = exception;
            wrong.push(format!(
                "{path}:{number}: [{check}] {subject} is {amount} now and not {listed}: \
                 take it out or lower it, as 'cargo xtask tidy --shrink' does in its list"
            ));
        }
    }
    wrong
}

/// The list without what is no longer needed, and with lower amounts where they are lower now.
pub(super) fn shrink(list: &str, findings: &[Finding]) -> String {
    let mut kept = String::new();
    for line in list.lines() {
        let mut line = line.to_owned();
        if let Some(Ok(exception)) = Exception::parse(&line) {
            let Some(finding) = findings.iter().find(|finding| exception.is_of(finding)) else { continue };
            if finding.amount < exception.amount {
                let Exception { check, subject, reason, .. } = exception;
                let reason = reason.map(|reason| format!("  # {reason}")).unwrap_or_default();
                line = format!("{check} {} {subject}{reason}", finding.amount);
            }
        }
        kept.push_str(&line);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(subject: &str, amount: usize) -> Finding {
        Finding::of("file-lines", subject.to_owned(), amount, subject, 1, "is long".to_owned())
    }

    const LIST: &str = "# What passes.\n\nfile-lines 600 a.rs  # a reason\nfile-lines 700 b.rs\n";

    #[test]
    fn a_list_lets_pass_what_it_names_and_no_more() {
        assert_eq!(compare(LIST, "list", &[long("a.rs", 600), long("b.rs", 700)]), Vec::<String>::new());
        let wrong = compare(LIST, "list", &[long("a.rs", 601), long("b.rs", 700), long("c.rs", 501)]);
        assert!(
            matches!(&wrong[..], [a, c] if a.contains("list:3 lets 600 pass") && c.contains("c.rs is long"))
        );
    }

    #[test]
    fn a_list_that_could_shrink_fails_until_it_does() {
        let findings = [long("a.rs", 550)];
        let wrong = compare(LIST, "list", &findings);
        assert!(
            matches!(&wrong[..], [a, b] if a.contains("is 550 now and not 600") && b.contains("is 0 now"))
        );
        let shrunk = shrink(LIST, &findings);
        assert_eq!(shrunk, "# What passes.\n\nfile-lines 550 a.rs  # a reason\n");
        assert_eq!(compare(&shrunk, "list", &findings), Vec::<String>::new());
        assert_eq!(shrink(LIST, &[long("a.rs", 900), long("b.rs", 700)]), LIST);
    }

    #[test]
    fn lines_that_say_nothing_are_named() {
        let wrong = |line| compare(line, "list", &[]);
        assert!(wrong("file-lines many a.rs")[0].contains("is not CHECK AMOUNT SUBJECT"));
        assert!(wrong("link 1 a.md")[0].contains("can have exceptions"));
        assert!(wrong("atomic 1 a.rs #")[0].contains("say why"));
    }
}
