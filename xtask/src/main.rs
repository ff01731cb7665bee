//! `cargo xtask`: the chores of this workspace.
//!
//! Each chore is a module; this file reads the command line. xtask links code generation and nothing else of the
//! workspace, so that a stale tree can always be written anew.

mod codegen;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND
  codegen [--check]        write the generated code, or say what is stale
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["codegen"] => codegen::run(false),
        ["codegen", "--check"] => codegen::run(true),
        _ => Err(USAGE.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}
