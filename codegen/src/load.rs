//! Reads and validates `native_functions.yaml` into [`crate::model`]. Every refusal names its line.

mod gradient;

use std::collections::{BTreeMap, HashMap};

use crate::model::{Backend, Entry, Kernel, Kind, Levels, Meta, Operator, OutDtype};
use crate::names;
use crate::schema::{Form, Schema, is_identifier};
use crate::yaml::{Error, Node};

type Result<T> = std::result::Result<T, Error>;

/// The keys of an entry, in the order in which they are written.
pub const KEYS: [&str; 22] = [
    "func",
    "doc",
    "family",
    "variants",
    "inplace",
    "out",
    "out_dtype",
    "method",
    "meta",
    "native",
    "composite",
    "kernel",
    "kernel_name",
    "dtypes",
    "rare",
    "params",
    "kernels",
    "dispatch",
    "derivatives",
    "non_differentiable",
    "inplace_derivatives",
    "tags",
];

/// The keys of an entry as a map, with the entry's line for what is missing.
struct Fields<'a> {
    line: usize,
    map: HashMap<&'a str, &'a Node>,
}

impl<'a> Fields<'a> {
    fn new(node: &'a Node, known: &[&str]) -> Result<Self> {
        let mut map = HashMap::new();
        for (key, value) in node.pairs()? {
            let name = key.text()?;
            if !known.contains(&name) {
                return Err(Error::new(key.line, format!("unknown key '{name}' (known: {})", known.join(", "))));
            }
            map.insert(name, value);
        }
        Ok(Self { line: node.line, map })
    }

    fn get(&self, name: &str) -> Option<&'a Node> {
        self.map.get(name).copied()
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.get(name).map(Node::text).transpose()
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>> {
        self.get(name).map(Node::texts).transpose()
    }

    fn require(&self, name: &str, why: &str) -> Result<&'a Node> {
        self.get(name).ok_or_else(|| Error::new(self.line, format!("the entry has no `{name}:` ({why})")))
    }

    /// The line of a key, or of the entry.
    fn line_of(&self, name: &str) -> usize {
        self.get(name).map_or(self.line, |node| node.line)
    }
}

/// Reads all entries, in the order of the file.
pub fn load(text: &str) -> Result<Vec<Entry>> {
    let document = crate::yaml::parse(text)?;
    let mut entries = document.items()?.iter().map(entry).collect::<Result<Vec<_>>>()?;
    check_unique(&entries)?;
    for (i, name) in check_kernels(&entries)? {
        entries[i].kernel_error_name.get_or_insert(name);
    }
    Ok(entries)
}

fn entry(node: &Node) -> Result<Entry> {
    let fields = Fields::new(node, &KEYS)?;
    let func = fields.require("func", "upstream's schema")?;
    let schema = Schema::parse(func.text()?).map_err(|e| Error::new(func.line, e))?;
    let doc = fields.require("doc", "every operator is documented")?.text()?.trim().to_string();
    if doc.is_empty() {
        return Err(Error::new(fields.line_of("doc"), "the doc is empty"));
    }
    let family_node = fields.require("family", "the file name that every crate uses")?;
    let family = family_node.text()?.to_string();
    if !is_identifier(&family) || names::snake(&family) != family || matches!(family.as_str(), "mod" | "kernels") {
        return Err(Error::new(family_node.line, format!("bad family name '{family}': lower case, digits and _")));
    }
    let kind = kind(&fields, &schema)?;
    let stem = names::stem(&schema);
    let operators = operators(&fields, &schema, &stem)?;
    let dispatch = dispatch(&fields)?;
    let (kernels, kernel) = kernels(&fields, &kind, &family, &stem, &dispatch)?;
    let params = fields.texts("params")?.unwrap_or_default();
    for param in &params {
        if schema.arg(param).is_none() {
            return Err(Error::new(
                fields.line_of("params"),
                format!("`params` names '{param}', which the schema lacks"),
            ));
        }
    }
    let method_args = method_args(&fields, &schema)?;
    let kernel_error_name = fields.text("kernel_name")?.map(str::to_string);
    let in_place_gradient = gradient::in_place(&fields, &kind, &operators)?;
    let gradient = gradient::gradient(&fields, &kind, &schema)?;
    let out_dtype = out_dtype(&fields, &operators)?;
    let tags = fields.texts("tags")?.unwrap_or_default();
    Ok(Entry {
        line: node.line,
        schema,
        stem,
        doc,
        family,
        kind,
        operators,
        kernels,
        kernel,
        kernel_error_name,
        method_args,
        params,
        dispatch,
        gradient,
        in_place_gradient,
        out_dtype,
        tags,
    })
}

/// `out_dtype: exact`, `any`, `cast`, or the words of the error where the dtype is not the result's.
fn out_dtype(fields: &Fields<'_>, operators: &[Operator]) -> Result<Option<OutDtype>> {
    let Some(node) = fields.get("out_dtype") else { return Ok(None) };
    if operators.iter().all(|op| op.form != Form::Out) {
        return Err(Error::new(node.line, "`out_dtype:` is given, but no `out` variant"));
    }
    match node.text()? {
        "exact" => Ok(Some(OutDtype::Exact)),
        "any" => Ok(Some(OutDtype::Any)),
        "cast" => Ok(Some(OutDtype::Cast)),
        words if words.contains('{') => Ok(Some(OutDtype::Words(words.to_string()))),
        other => Err(Error::new(
            node.line,
            format!("`out_dtype: {other}`: exact, any, cast, or words with {{result}}, {{out}}, {{Result}}, {{Out}}"),
        )),
    }
}

/// The arguments in `method: sum_dim(dim, keepdim)`: those with defaults that the short method takes all the same.
fn method_args(fields: &Fields<'_>, schema: &Schema) -> Result<Vec<String>> {
    let Some(node) = fields.get("method") else { return Ok(Vec::new()) };
    let Some((_, list)) = node.text()?.split_once('(') else { return Ok(Vec::new()) };
    let Some(list) = list.strip_suffix(')') else { return Err(Error::new(node.line, "`method:` has '(' without ')'")) };
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_string()).collect();
    match names.iter().find(|name| schema.arg(name).is_none()) {
        Some(name) => Err(Error::new(node.line, format!("`method:` names '{name}', which the schema lacks"))),
        None => Ok(names),
    }
}

fn kind(fields: &Fields<'_>, schema: &Schema) -> Result<Kind> {
    let given: Vec<&str> =
        ["meta", "native", "composite"].into_iter().filter(|key| fields.get(key).is_some()).collect();
    let [one] = given.as_slice() else {
        let found = if given.is_empty() { "none".to_string() } else { given.join(" and ") };
        return Err(Error::new(
            fields.line,
            format!("an entry has one of `meta:`, `native: own` and `composite:`, not {found}"),
        ));
    };
    let node = fields.require(one, "")?;
    let text = node.text()?;
    let bad = |expected: &str| Err(Error::new(node.line, format!("`{one}: {text}`: expected {expected}")));
    match (*one, text) {
        ("native", "own") => Ok(Kind::Native),
        ("native", _) => bad("own"),
        ("composite", "explicit") => Ok(Kind::CompositeExplicit),
        ("composite", "implicit") => Ok(Kind::CompositeImplicit),
        ("composite", _) => bad("explicit or implicit"),
        (_, "own") => Ok(Kind::Iterator(Meta::Own)),
        (_, rule) => {
            let (name, args) = match rule.split_once('(') {
                Some((name, args)) => {
                    let Some(args) = args.strip_suffix(')') else { return bad("RULE or RULE(argument, ..)") };
                    (name, args.split(',').map(|arg| arg.trim().to_string()).collect())
                }
                None => {
                    let tensors = schema.args.iter().filter(|arg| arg.ty.is_tensor_like() && !arg.kw_only);
                    (rule, tensors.map(|arg| arg.name.clone()).collect::<Vec<_>>())
                }
            };
            if !is_identifier(name) {
                return bad("own, or a rule of aten::iterate");
            }
            if let Some(unknown) = args.iter().find(|arg| schema.arg(arg).is_none()) {
                return Err(Error::new(node.line, format!("the rule names '{unknown}', which the schema lacks")));
            }
            Ok(Kind::Iterator(Meta::Rule { name: name.to_string(), args }))
        }
    }
}

/// The schemas under `inplace:` or `out:`, or the one by rule. Each item is a whole schema or a bare name.
fn forms(
    fields: &Fields<'_>,
    key: &str,
    derived: impl Fn() -> std::result::Result<Schema, String>,
) -> Result<Vec<Schema>> {
    let at = |line: usize| move |e: String| Error::new(line, e);
    let Some(node) = fields.get(key) else { return Ok(vec![derived().map_err(at(fields.line))?]) };
    node.items()?
        .iter()
        .map(|item| {
            let text = item.text()?;
            if text.contains('(') {
                return Schema::parse(text).map_err(at(item.line));
            }
            let mut schema = derived().map_err(at(item.line))?;
            let (name, overload) = text.split_once('.').unwrap_or((text, ""));
            if name != schema.name || !(overload.is_empty() || is_identifier(overload)) {
                return Err(Error::new(
                    item.line,
                    format!("`{key}: {text}`: expected '{}.OVERLOAD' or a schema", schema.name),
                ));
            }
            schema.overload = overload.to_string();
            Ok(schema)
        })
        .collect()
}

fn operators(fields: &Fields<'_>, schema: &Schema, stem: &str) -> Result<Vec<Operator>> {
    let variants = fields.require("variants", "some of function, method, inplace, out")?;
    let names = variants.texts()?;
    let known = ["function", "method", "inplace", "out"];
    if let Some(bad) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Error::new(variants.line, format!("unknown variant '{bad}' (known: {})", known.join(", "))));
    }
    let has = |name: &str| names.iter().any(|have| have == name);
    for key in ["inplace", "out"] {
        if fields.get(key).is_some() && !has(key) {
            return Err(Error::new(fields.line_of(key), format!("`{key}:` is given but not listed in `variants:`")));
        }
    }
    let method = match (has("method"), fields.text("method")?) {
        (false, Some(_)) => return Err(Error::new(fields.line_of("method"), "`method:` is given but not a variant")),
        (false, None) => None,
        (true, given) => Some(given.unwrap_or(stem).to_string()),
    };
    let method = method.map(|text| text.split_once('(').map_or(text.clone(), |(name, _)| name.to_string()));
    if let Some(name) = &method {
        if !is_identifier(name) {
            return Err(Error::new(fields.line_of("method"), format!("bad method name '{name}'")));
        }
        if name == "clone" {
            return Err(Error::new(
                fields.line_of("method"),
                "a method `clone` would hide `Clone::clone`: give `method:`",
            ));
        }
        if !schema.arg("self").is_some_and(|arg| crate::types::is_tensor(&arg.ty)) {
            return Err(Error::new(variants.line, "a method needs a tensor argument named 'self'"));
        }
    }
    let form = schema.form();
    let mut list = vec![Operator { schema: schema.clone(), form, stem: stem.to_string(), method: method.clone() }];
    if has("inplace") {
        for schema in forms(fields, "inplace", || schema.derive_in_place())? {
            if schema.form() != Form::InPlace {
                return Err(Error::new(
                    fields.line_of("inplace"),
                    format!("{} is no in-place schema", schema.full_name()),
                ));
            }
            let stem = names::stem(&schema);
            // The method of the in-place form follows the functional one's.
            let method = match &method {
                Some(name) if !name.ends_with('_') => Some(format!("{name}_")),
                Some(name) => Some(name.clone()),
                None => schema.arg("self").filter(|arg| crate::types::is_tensor(&arg.ty)).map(|_| stem.clone()),
            };
            list.push(Operator { schema, form: Form::InPlace, stem, method });
        }
    }
    if has("out") {
        for schema in forms(fields, "out", || schema.derive_out())? {
            if schema.form() != Form::Out {
                return Err(Error::new(fields.line_of("out"), format!("{} is no out schema", schema.full_name())));
            }
            let stem = names::stem(&schema);
            list.push(Operator { schema, form: Form::Out, stem, method: None });
        }
    }
    for op in &list {
        for ret in &op.schema.returns {
            if ret.ty.is_written() && op.schema.written_args().all(|arg| arg.ty.alias != ret.ty.alias) {
                return Err(Error::new(
                    fields.line,
                    format!("{} returns '{ret}', which no argument is", op.schema.full_name()),
                ));
            }
        }
        crate::types::check(&op.schema)
            .map_err(|e| Error::new(fields.line, format!("{}: {e}", op.schema.full_name())))?;
    }
    Ok(list)
}

fn dispatch(fields: &Fields<'_>) -> Result<Vec<Backend>> {
    let Some(node) = fields.get("dispatch") else { return Ok(vec![Backend::Cpu]) };
    let mut backends = node
        .items()?
        .iter()
        .map(|item| {
            let text = item.text()?;
            let found = Backend::ALL.iter().find(|(_, name, _)| *name == text);
            found
                .map(|(backend, ..)| *backend)
                .ok_or_else(|| Error::new(item.line, format!("unknown backend '{text}'")))
        })
        .collect::<Result<Vec<_>>>()?;
    backends.sort();
    backends.dedup();
    Ok(backends)
}

type Declared = (Vec<Kernel>, Option<(String, String)>);

fn kernels(fields: &Fields<'_>, kind: &Kind, family: &str, stem: &str, dispatch: &[Backend]) -> Result<Declared> {
    let iterator = matches!(kind, Kind::Iterator(_));
    let mut declared = Vec::new();
    let set = |node: &Node| names::dtype_set(node.text()?).map_err(|e| Error::new(node.line, e));
    if let Some(node) = fields.get("kernels") {
        for (name, value) in node.pairs()? {
            let kernel = Fields::new(value, &["type", "dtypes", "name", "isa"])?;
            let text = name.text()?;
            if !is_identifier(text) || names::snake(text) != text {
                return Err(Error::new(name.line, format!("bad kernel name '{text}'")));
            }
            declared.push(Kernel {
                name: text.to_string(),
                ty: kernel.require("type", "a type alias of aten::kernels")?.text()?.to_string(),
                dtypes: set(kernel.require("dtypes", "the columns")?)?,
                error_name: kernel.text("name")?.unwrap_or(text).to_string(),
                levels: match kernel.get("isa").map(Node::boolean).transpose()? {
                    Some(false) => Levels::None,
                    _ => Levels::Each,
                },
                line: name.line,
                dispatch: dispatch.to_vec(),
            });
        }
    }
    for key in ["kernel", "kernel_name", "rare", "dtypes", "params"] {
        if fields.get(key).is_some() && !iterator {
            return Err(Error::new(
                fields.line_of(key),
                format!("`{key}:` belongs to `meta:` entries; others list `kernels:`"),
            ));
        }
    }
    if !iterator {
        return Ok((declared, None));
    }
    let reference = fields.text("kernel")?.unwrap_or(stem);
    let (home, name) = reference.split_once('.').unwrap_or((family, reference));
    match fields.get("dtypes") {
        Some(dtypes) if home == family => {
            declared.push(Kernel {
                name: name.to_string(),
                ty: "IterKernel".to_string(),
                dtypes: set(dtypes)?,
                error_name: fields.text("kernel_name")?.unwrap_or(name).to_string(),
                levels: match fields.get("rare").map(Node::boolean).transpose()? {
                    Some(true) => Levels::Baseline,
                    _ => Levels::Each,
                },
                line: fields.line_of("kernel"),
                dispatch: dispatch.to_vec(),
            });
        }
        Some(_) => {
            return Err(Error::new(fields.line_of("dtypes"), "`dtypes:` stands with the family that owns the kernel"));
        }
        None if fields.get("kernel").is_none() => {
            return Err(Error::new(fields.line, "the entry has no `dtypes:` (or `kernel:` of another entry)"));
        }
        None => {}
    }
    Ok((declared, Some((home.to_string(), name.to_string()))))
}

fn check_unique(entries: &[Entry]) -> Result<()> {
    let mut schemas: HashMap<String, usize> = HashMap::new();
    let mut stems: HashMap<&str, usize> = HashMap::new();
    let mut methods: HashMap<&str, usize> = HashMap::new();
    for entry in entries {
        let taken = |line: Option<usize>, what: String| match line {
            Some(line) => Err(Error::new(entry.line, format!("{what} stands in line {line} too"))),
            None => Ok(()),
        };
        for op in &entry.operators {
            let name = op.schema.full_name();
            taken(schemas.insert(name.clone(), entry.line), format!("operator {name}"))?;
            taken(stems.insert(&op.stem, entry.line), format!("the stem '{}' of {name}", op.stem))?;
            if let Some(method) = &op.method {
                taken(methods.insert(method, entry.line), format!("the method '{method}' of {name}"))?;
            }
        }
    }
    Ok(())
}

/// A kernel is declared once, and every kernel that an entry runs is declared. Gives the entries that run one with the
/// name that errors use for it.
fn check_kernels(entries: &[Entry]) -> Result<Vec<(usize, String)>> {
    let mut declared: BTreeMap<(&str, &str), &Kernel> = BTreeMap::new();
    for entry in entries {
        for kernel in &entry.kernels {
            if let Some(other) = declared.insert((&entry.family, &kernel.name), kernel) {
                let message =
                    format!("the kernel '{}.{}' is declared in line {} too", entry.family, kernel.name, other.line);
                return Err(Error::new(kernel.line, message));
            }
        }
    }
    let mut run = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let Some((family, name)) = &entry.kernel else { continue };
        match declared.get(&(family.as_str(), name.as_str())) {
            Some(kernel) => run.push((i, kernel.error_name.clone())),
            None => return Err(Error::new(entry.line, format!("no entry declares the kernel '{family}.{name}'"))),
        }
    }
    Ok(run)
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
