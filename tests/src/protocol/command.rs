//! The command that starts an engine: words, quotes, and a fresh folder where it asks for one.

use std::time::Duration;

/// What stands for the fresh folder in a command.
const FOLDER: &str = "{dir}";

/// A program with its arguments, and how long it may take for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolCommand {
    words: Vec<String>,
    call_limit: Duration,
}

/// A command that cannot be split into words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    /// There is no word in it.
    #[error("the engine's command is empty")]
    Empty,
    /// A quote is not closed, or a backslash stands last.
    #[error("the engine's command ends within a quote: {0}")]
    Unfinished(String),
}

impl ProtocolCommand {
    /// Splits a command as a shell does, without starting one: words at white space; `'...'` is
    /// taken as it stands; in `"..."` and outside of quotes, a backslash takes the next character
    /// as it stands.
    ///
    /// # Errors
    /// There is no word, or a quote does not end.
    pub fn new(command: &str, call_limit: Duration) -> Result<Self, BadCommand> {
        let words = split(command)?;
        if words.is_empty() {
            return Err(BadCommand::Empty);
        }
        Ok(Self { words, call_limit })
    }

    /// How long one call may take.
    pub fn call_limit(&self) -> Duration {
        self.call_limit
    }

    /// Whether it wants a folder.
    pub(super) fn wants_folder(&self) -> bool {
        self.words.iter().any(|word| word.contains(FOLDER))
    }

    /// Its words, with the folder put in.
    pub(super) fn words(&self, folder: &str) -> Vec<String> {
        self.words.iter().map(|word| word.replace(FOLDER, folder)).collect()
    }
}

fn split(command: &str) -> Result<Vec<String>, BadCommand> {
    let unfinished = || BadCommand::Unfinished(command.to_owned());
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                word.get_or_insert_default().push(chars.next().ok_or_else(unfinished)?);
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(unfinished());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::{BadCommand, split};

    #[test]
    fn words_are_those_of_a_shell() {
        for (command, words) in [
            ("a b", vec!["a", "b"]),
            ("  a\t b\n", vec!["a", "b"]),
            ("'a b' c", vec!["a b", "c"]),
            (r#""a \"b" '\'"#, vec![r#"a "b"#, r"\"]),
            (r"a\ b\\", vec![r"a b\"]),
            (r#"x"y"'z' '' """#, vec!["xyz", "", ""]),
            ("", vec![]),
        ] {
            assert_eq!(split(command).expect(command), words, "{command}");
        }
        for command in ["'a", "\"a", "a\\", "\"a\\"] {
            let unfinished = Err(BadCommand::Unfinished(command.to_owned()));
            assert_eq!(split(command), unfinished, "{command}");
        }
    }
}
