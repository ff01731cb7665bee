//! The loss curves as a picture.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::train::{Network, Run};

/// Draws the losses of each epoch, of training (thin) and testing (thick), on a logarithmic scale.
pub fn draw(file: &Path, runs: &[(Network, Run)]) -> Result<(), Box<dyn Error>> {
    let epochs = runs.iter().map(|(_, run)| run.epochs.len()).max().unwrap_or(0).max(2);
    let area = SVGBackend::new(file, (800, 500)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Digits: loss by epoch", ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(1f64..epochs as f64, (0.01f64..3.0).log_scale())?;
    chart.configure_mesh().x_desc("epoch").y_desc("cross entropy").x_label_formatter(&|x| format!("{x:.0}")).draw()?;
    for ((network, run), color) in runs.iter().zip([BLUE, RED]) {
        let curves = [
            ("train", 1, run.epochs.iter().map(|e| e.train_loss).collect::<Vec<_>>()),
            ("test", 3, run.epochs.iter().map(|e| e.test_loss).collect()),
        ];
        for (part, width, losses) in curves {
            let points = losses.into_iter().enumerate().map(|(i, loss)| ((i + 1) as f64, loss));
            let style = color.stroke_width(width);
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(format!("{} {part}", network.name))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
