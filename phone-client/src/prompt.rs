//! Questions to a person at the terminal, one at a time.

use std::io::{self, BufRead, Write};

use anyhow::{Context, bail};
use secrecy::SecretString;

/// A line of text for the person.
pub(crate) fn line(text: &str) {
    // Nobody reads it when the terminal is gone.
    let _ = writeln!(io::stdout(), "{text}");
}

/// Asks for something that is not shown while it is typed.
///
/// # Errors
/// There is no terminal.
pub(crate) fn secret(question: &str) -> anyhow::Result<SecretString> {
    let answer = rpassword::prompt_password(question).context("there is no terminal to ask in: give a file instead")?;
    Ok(SecretString::from(answer.trim().to_owned()))
}

/// Asks a question of yes or no, until it is answered.
///
/// # Errors
/// The input has ended.
pub(crate) fn yes(question: &str) -> anyhow::Result<bool> {
    let mut input = io::stdin().lock();
    loop {
        let mut out = io::stdout();
        write!(out, "{question} (yes/no) ")?;
        out.flush()?;
        let mut answer = String::new();
        if input.read_line(&mut answer)? == 0 {
            bail!("nobody has answered");
        }
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}
