//! A figure with what was measured for it, ready to be shown.

use serde::Serialize;

use super::Point;

/// A figure with its points.
pub struct Drawn {
    /// The name by which a user asks for it.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The method, in a sentence.
    pub about: &'static str,
    /// The quantity along the horizontal axis.
    pub(crate) x: &'static str,
    /// Whether it is drawn as bars, instead of lines.
    pub(crate) bars: bool,
    /// Where its points are.
    pub(crate) places: Vec<Place>,
    /// The quantities that are drawn, a row of charts each.
    pub(crate) shown: Vec<Shown>,
    /// All that was measured of them, by name.
    pub(crate) columns: Vec<(&'static str, Vec<f64>)>,
    /// Statements of the paper, each compared with our number.
    pub rows: Vec<Row>,
}

/// Where a point is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The panel it is shown in.
    pub(crate) panel: String,
    /// Its curve.
    pub(crate) curve: String,
    /// Its place on the horizontal axis.
    pub(crate) x: String,
}

impl From<Point> for Place {
    fn from(point: Point) -> Self {
        Self { panel: point.panel, curve: point.curve, x: point.x }
    }
}

/// Something that is drawn.
pub struct Shown {
    /// The quantity, with its unit.
    pub(crate) what: String,
    /// By point.
    pub(crate) values: Vec<f64>,
}

/// Something that the paper speaks of, and what came of it here.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The figure.
    pub figure: &'static str,
    /// The name of the quantity.
    pub quantity: String,
    /// The number that the paper states, if it states one.
    pub paper: Option<f64>,
    /// The paper's words where it states no number, or more than the number.
    pub paper_says: Option<&'static str>,
    /// Our number.
    pub ours: f64,
    /// By how much of the paper's number that is more, or less.
    pub error: Option<f64>,
    /// Whether what the paper says holds here, where that is checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// Why it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

impl Row {
    /// A row about a figure; the paper states a number, or does not.
    pub(crate) fn new(
        figure: &'static str,
        quantity: String,
        paper: Option<f64>,
        paper_says: Option<&'static str>,
        ours: f64,
    ) -> Self {
        let error = paper.map(|paper| ours / paper - 1.0);
        Self { figure, quantity, paper, paper_says, ours, error, holds: None, why: None }
    }

    /// The row, with whether what the paper says holds; if not, `why` explains it.
    pub(crate) fn judged(self, holds: bool, why: &'static str) -> Self {
        Self { holds: Some(holds), why: (!holds).then_some(why), ..self }
    }
}

impl Drawn {
    /// The name of its files, without their endings.
    pub fn file_name(&self) -> String {
        match self.id.parse::<u32>() {
            Ok(number) => format!("figure-{number:02}"),
            Err(_) => self.id.to_owned(),
        }
    }
}
