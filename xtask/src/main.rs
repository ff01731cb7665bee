//! `cargo xtask`: the chores of this workspace.
//!
//! Each chore is a module; this file reads the command line. xtask links code generation and nothing else of the
//! workspace, so that a stale tree can always be written anew; what needs tensors is a binary of the tests package.

mod codegen;
mod op;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND
  codegen [--check]             write the generated code, or fail if some is stale
  op NAME                       every place of an operator, as file:line
  op new NAME --family F        the snippets that a new operator needs, to fill in
  tidy                          headers, lengths, words, and where unsafe code may stand
  ci                            what continuous integration runs
  conformance [DIR] [ARGS]      replay recorded calls of PyTorch
  coverage [ARGS]               operator x backend x dtype
  bench [ARGS]                  time operators and training steps";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["codegen"] => codegen::run(false),
        ["codegen", "--check"] => codegen::run(true),
        ["op", "new", name, "--family", family] | ["op", "new", "--family", family, name] => op::new(name, family),
        ["op", name] => op::places(name),
        ["tidy"] => tidy::run(),
        ["ci"] => workspace::execute(".ci/run", &[]),
        [name @ ("conformance" | "coverage" | "bench"), rest @ ..] => {
            let mut cargo = vec!["run", "--quiet", "--release", "-p", "tensor-tests", "--bin", name, "--"];
            cargo.extend(rest);
            workspace::execute("cargo", &cargo)
        }
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
