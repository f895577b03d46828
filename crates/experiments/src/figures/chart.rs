//! Draws a figure: a row of charts per quantity, a chart per panel.

use std::error::Error;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::Drawn;
use super::drawn::{Place, Shown};

const CHART: (u32, u32) = (440, 300);
const TITLE: u32 = 34;
const LEGEND: u32 = 24;

/// Colours that can be told apart, also by those who tell few.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(80, 80, 80),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawing = Result<(), Box<dyn Error>>;

impl Drawn {
    /// The figure as SVG.
    ///
    /// # Errors
    /// None that are known.
    pub fn svg(&self) -> Result<String> {
        svg(self)
    }
}

pub(super) fn svg(drawn: &Drawn) -> Result<String> {
    let mut text = String::new();
    draw(drawn, &mut text).map_err(|error| anyhow!("cannot draw figure {}: {error}", drawn.id))?;
    Ok(text)
}

fn draw(drawn: &Drawn, text: &mut String) -> Drawing {
    let panels = distinct(&drawn.places, |place| &place.panel);
    let curves = distinct(&drawn.places, |place| &place.curve);
    let rows = drawn.shown.len();
    let width = CHART.0 * panels.len() as u32;
    let legend_rows = curves.len().div_ceil(width as usize / LEGEND_WIDTH as usize) as u32;
    let head = TITLE + LEGEND * legend_rows;
    let size = (width, head + CHART.1 * rows as u32);
    let root = SVGBackend::with_string(text, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, charts) = root.split_vertically(head);
    legend(drawn, &curves, &top)?;
    let areas = charts.split_evenly((rows, panels.len()));
    for (number, area) in areas.iter().enumerate() {
        let (row, column) = (number / panels.len(), number % panels.len());
        chart(drawn, &drawn.shown[row], panels[column], &curves, area)?;
    }
    root.present()?;
    Ok(())
}

const LEGEND_WIDTH: u32 = 220;

fn legend(drawn: &Drawn, curves: &[&str], area: &Area<'_>) -> Drawing {
    let title = match drawn.id.parse::<u32>() {
        Ok(number) => format!("Figure {number}: {}", drawn.title),
        Err(_) => drawn.title.to_owned(),
    };
    area.draw(&Text::new(title, (12, 10), ("sans-serif", 18).into_font()))?;
    let per_row = (area.dim_in_pixel().0 / LEGEND_WIDTH).max(1) as usize;
    for (number, curve) in curves.iter().enumerate() {
        let x = 12 + (number % per_row) as i32 * LEGEND_WIDTH as i32;
        let y = TITLE as i32 + (number / per_row) as i32 * LEGEND as i32;
        let colour = COLOURS[number % COLOURS.len()].filled();
        area.draw(&Rectangle::new([(x, y), (x + 14, y + 14)], colour))?;
        let place = (x + 20, y);
        area.draw(&Text::new((*curve).to_owned(), place, ("sans-serif", 14).into_font()))?;
    }
    Ok(())
}

fn chart(drawn: &Drawn, shown: &Shown, panel: &str, curves: &[&str], area: &Area<'_>) -> Drawing {
    let all = drawn.places.iter().zip(shown.values.iter().copied());
    let points: Vec<(&Place, f64)> = all.filter(|(place, _)| place.panel == panel).collect();
    let places = distinct(points.iter().map(|(place, _)| *place), |place| &place.x);
    let most = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let top = if most > 0.0 { 1.08 * most } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(panel, ("sans-serif", 14))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(-0.5..places.len() as f64 - 0.5, 0.0..top)?;
    let name = |x: &f64| {
        let whole = (x - x.round()).abs() < 0.01 && x.round() >= 0.0;
        places.get(x.round() as usize).filter(|_| whole).map_or_else(String::new, |x| (*x).into())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(places.len())
        .x_label_formatter(&name)
        .y_labels(6)
        .x_desc(drawn.x)
        .y_desc(shown.what.clone())
        .label_style(("sans-serif", 12))
        .draw()?;
    for (number, curve) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let of_curve: Vec<(f64, f64)> = points
            .iter()
            .filter(|(place, _)| place.curve == *curve)
            .map(|(place, value)| {
                let x = places.iter().position(|x| *x == place.x).expect("it is one of them");
                (x as f64, *value)
            })
            .collect();
        if drawn.bars {
            let width = 0.8 / curves.len() as f64;
            chart.draw_series(of_curve.iter().map(|&(x, y)| {
                let left = x - 0.4 + width * number as f64;
                Rectangle::new([(left, 0.0), (left + 0.9 * width, y)], colour.filled())
            }))?;
        } else {
            chart.draw_series(LineSeries::new(of_curve.clone(), colour.stroke_width(2)))?;
            chart.draw_series(of_curve.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
        }
    }
    Ok(())
}

/// The values of a property of the points, each once, in the order of the points.
fn distinct<'a>(
    points: impl IntoIterator<Item = &'a Place>,
    of: fn(&'a Place) -> &'a String,
) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for point in points {
        if !found.contains(&of(point).as_str()) {
            found.push(of(point));
        }
    }
    found
}
