//! How the library was built and what it runs on.

fn main() {
    print!("{}", tensor::config::show());
}
