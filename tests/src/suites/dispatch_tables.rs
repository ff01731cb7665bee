//! Snapshots of dispatch tables: what was registered for an operator, and what each key runs.
//!
//! After a wanted change, read the new tables and accept them: `cargo insta accept`, or rename the `.snap.new` files.

use tensor_aten::dispatch;

fn tables(op: &str) -> String {
    let show = |table: tensor_core::Result<String>| table.unwrap_or_else(|e| format!("{e:?}\n"));
    format!("registered\n{}\ncomputed\n{}", show(dispatch::dump_registered(op)), show(dispatch::dump_computed(op)))
}

macro_rules! pinned {
    ($($test:ident: $op:literal;)*) => { $(
        #[test]
        fn $test() {
            insta::assert_snapshot!(stringify!($test), tables($op));
        }
    )* };
}

// A kernel and a derivative; a reduction; a fused operator; a composite; an in-place one; a factory.
pinned! {
    add_tensor: "aten::add.Tensor";
    mm: "aten::mm";
    sum_dim_int_list: "aten::sum.dim_IntList";
    native_layer_norm: "aten::native_layer_norm";
    reshape: "aten::reshape";
    copy_: "aten::copy_";
    empty: "aten::empty.memory_format";
}
