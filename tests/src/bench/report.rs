//! Times of this library beside PyTorch's: a table, and a picture of the groups' ratios.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use plotters::prelude::*;
use serde::Deserialize;

use super::Workload;

/// A line that some library printed, or a limit of the machine.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Time {
        name: String,
        #[serde(rename = "impl")]
        library: String,
        min_ns: f64,
    },
    /// `limits/NAME`: the best rate that was measured, in units a nanosecond
    Limit { name: String, value: f64 },
}

/// What the machine can do at best, by name: `fma_f32_avx512/2t` in FLOP/ns, `bw_copy/64M/2t` in bytes/ns.
struct Limits(BTreeMap<String, f64>);

impl Limits {
    /// The least time of a workload on two threads, in nanoseconds: of its arithmetic, or of its traffic with the level of memory
    /// that holds it.
    fn bound(&self, workload: &Workload) -> Option<f64> {
        let rate = |name: String| self.0.get(&name).copied();
        let dtype = if workload.dtype == "f64" { "f64" } else { "f32" };
        let arithmetic = workload.flops.zip(rate(format!("fma_{dtype}_avx512/2t"))).map(|(flops, peak)| flops / peak);
        let traffic = workload.bytes.and_then(|bytes| {
            let mib = bytes / f64::from(1 << 20);
            let size = [(3.0, "L2_512K"), (32.0, "4M"), (320.0, "64M")].into_iter().find(|(most, _)| mib <= *most);
            let size = size.map_or("512M", |(_, size)| size);
            let rates = ["copy", "copy_nt", "triad", "triad_nt"].map(|way| rate(format!("bw_{way}/{size}/2t")));
            rates.into_iter().flatten().reduce(f64::max).map(|best| bytes / best)
        });
        arithmetic.into_iter().chain(traffic).reduce(f64::max)
    }
}

/// Times of one workload, the least of all lines.
#[derive(Clone, Copy)]
struct Pair {
    torch: f64,
    ours: f64,
}

/// The least times of the workloads that both libraries ran.
pub struct Report<'a> {
    rows: Vec<(&'a Workload, Pair)>,
    limits: Limits,
}

impl<'a> Report<'a> {
    /// Takes the lines of `ours` and `torch` from the text of a comparison, and the limits of the machine if it has any.
    ///
    /// # Errors
    /// When a line is none.
    pub fn read(all: &'a [Workload], text: &str) -> Result<Self, String> {
        let mut least = BTreeMap::<(String, String), f64>::new();
        let mut limits = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with('{')) {
            match serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))? {
                Line::Time { name, library, min_ns } => {
                    let time = least.entry((library, name)).or_insert(f64::INFINITY);
                    *time = time.min(min_ns);
                }
                Line::Limit { name, value } => {
                    limits.insert(name.trim_start_matches("limits/").to_owned(), value);
                }
            }
        }
        let of = |library: &str, name: &str| least.get(&(library.to_owned(), name.to_owned())).copied();
        let rows = all.iter().filter_map(|workload| {
            let (torch, ours) = (of("torch", &workload.name)?, of("ours", &workload.name)?);
            Some((workload, Pair { torch, ours }))
        });
        Ok(Self { rows: rows.collect(), limits: Limits(limits) })
    }

    /// Groups in their order, with the geometric mean of their ratios and how many there are.
    fn groups(&self) -> Vec<(&'a str, f64, usize)> {
        let mut groups: Vec<(&str, f64, usize)> = Vec::new();
        for (workload, pair) in &self.rows {
            let log = (pair.ours / pair.torch).ln();
            match groups.iter_mut().find(|(name, ..)| *name == workload.group) {
                Some((_, sum, count)) => {
                    *sum += log;
                    *count += 1;
                }
                None => groups.push((&workload.group, log, 1)),
            }
        }
        groups.into_iter().map(|(name, sum, count)| (name, (sum / count as f64).exp(), count)).collect()
    }

    /// A Markdown table: of each group its mean, then its workloads; with the rates that the work was done at, and how much of what the
    /// machine can do at best that is.
    pub fn table(&self) -> String {
        let mut text =
            "| workload | PyTorch | ours | ratio | GB/s | GFLOP/s | of the limit |\n|---|---|---|---|---|---|---|\n"
                .to_owned();
        for (group, mean, count) in self.groups() {
            let _ = writeln!(text, "| **{group}** |  | of {count} | **{mean:.2}** |  |  |  |");
            for (workload, pair) in self.rows.iter().filter(|(workload, _)| workload.group == group) {
                let rate =
                    |amount: Option<f64>| amount.map_or_else(String::new, |amount| show_rate(amount / pair.ours));
                let share = self
                    .limits
                    .bound(workload)
                    .map_or_else(String::new, |bound| format!("{:.0} %", 100.0 * bound / pair.ours));
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {:.2} | {} | {} | {share} |",
                    workload.name,
                    workload.show(pair.torch),
                    workload.show(pair.ours),
                    pair.ours / pair.torch,
                    rate(workload.bytes),
                    rate(workload.flops),
                );
            }
        }
        text
    }

    /// Draws the groups' ratios: a bar each, and a mark for each workload.
    ///
    /// # Errors
    /// When the picture cannot be written.
    pub fn draw(&self, file: &Path) -> Result<(), String> {
        self.try_draw(file).map_err(|e| format!("{}: {e}", file.display()))
    }

    fn try_draw(&self, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let groups = self.groups();
        let area = SVGBackend::new(file, (820, 60 + 44 * groups.len() as u32)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption("Time, over PyTorch's (geometric means; a dot a workload)", ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(90)
            .build_cartesian_2d((0.02f64..4.0).log_scale(), 0f64..groups.len() as f64)?;
        let name = |y: &f64| {
            let row = groups.len() as f64 - 0.5 - y;
            groups.get(row.round() as usize).filter(|_| (row - row.round()).abs() < 0.01).map_or("", |(name, ..)| name)
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(2 * groups.len() + 1)
            .y_label_formatter(&|y| name(y).to_owned())
            .x_label_formatter(&|x| format!("{x}"))
            .draw()?;
        for (i, &(group, mean, _)) in groups.iter().enumerate() {
            let y = (groups.len() - 1 - i) as f64;
            chart.draw_series([Rectangle::new([(0.02, y + 0.25), (mean, y + 0.75)], BLUE.mix(0.5).filled())])?;
            let ratios = self.rows.iter().filter(|(workload, _)| workload.group == group);
            let ratios = ratios.map(|(_, pair)| (pair.ours / pair.torch).clamp(0.02, 4.0));
            chart.draw_series(ratios.map(|ratio| Circle::new((ratio, y + 0.5), 2, BLACK.filled())))?;
            chart.draw_series([Text::new(format!("{mean:.2}"), (2.6, y + 0.6), ("sans-serif", 15))])?;
        }
        chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, groups.len() as f64)], RED.stroke_width(2))])?;
        area.present()?;
        Ok(())
    }
}

fn show_rate(rate: f64) -> String {
    if rate >= 10.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}
