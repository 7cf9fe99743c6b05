//! A data graph with the attributes of its vertices.

use crate::error::Labeled;
pub use crate::error::Problem;
use crate::{EdgeFeatures, Features, GraphError, Names, Topology};
use gnnc_ir::words::spelling::counted;

/// A data graph: edges, features, labels and the split into training, validation and test vertices.
/// Each mask has one entry per vertex.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphData {
    /// Display name, taken from the file.
    pub name: String,
    /// The edges.
    pub topology: Topology,
    /// The input features, one row per vertex. The last columns are those of the vertices' types.
    pub features: Features,
    /// The names of the types of vertices ([`crate::vertex_types`]); none if there is one type.
    pub vertex_types: Names,
    /// Numbers of the edges.
    pub edge_features: EdgeFeatures,
    /// The labels, one per vertex.
    pub labels: Labels,
    /// Vertices whose loss is minimized.
    pub train: Vec<bool>,
    /// Vertices on which the epoch or the hyperparameters are chosen.
    pub val: Vec<bool>,
    /// Vertices on which the reported accuracy is measured.
    pub test: Vec<bool>,
    /// How many of the last vertices predictions are about, because they stand for graphs or for pairs of
    /// vertices; 0 if predictions are about all.
    pub subjects: u32,
    /// The ids of the vertices in the data they come from; none if these are their numbers.
    pub ids: Names,
    /// The names of the classes; none if they have only numbers.
    pub class_names: Names,
}

/// What a model learns to say about the vertices.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Labels {
    /// No labels.
    #[default]
    None,
    /// One class per vertex, -1 if unknown.
    Single(Vec<i32>),
    /// A row of numbers per vertex: whether it has each of several labels (from 0 to 1), or the
    /// targets of a regression. A number that is unknown is NaN, and losses and scores leave it out.
    Values {
        /// Numbers per vertex.
        width: u32,
        /// `vertices * width` numbers, row-major.
        values: Vec<f32>,
    },
}

impl Labels {
    /// Whether a vertex has a label, or of a row of numbers at least one.
    pub fn known(&self, vertex: usize) -> bool {
        match self {
            // A graph without labels says so when a loss needs them.
            Self::None => true,
            Self::Single(classes) => classes.get(vertex) != Some(&-1),
            Self::Values { width, values } => {
                let row = values.chunks((*width).max(1) as usize).nth(vertex);
                row.is_none_or(|row| !row.iter().all(|x| x.is_nan()))
            }
        }
    }

    /// The share of a vertex's numbers that are known; 1 if it has a class.
    pub fn known_share(&self, vertex: usize) -> f64 {
        match self {
            Self::None | Self::Single(_) => 1.0,
            Self::Values { width, values } => {
                let row = values.chunks((*width).max(1) as usize).nth(vertex);
                let row = row.unwrap_or_default();
                let known = row.iter().filter(|x| !x.is_nan()).count();
                known as f64 / row.len().max(1) as f64
            }
        }
    }

    /// Number of rows; `None` without labels.
    pub(crate) fn rows(&self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Single(classes) => Some(classes.len()),
            Self::Values { width, values } => Some(values.len() / (*width).max(1) as usize),
        }
    }

    /// One class a vertex as floats hold them, NaN if unknown. `None` if one is no whole number.
    pub(crate) fn of_floats(values: &[f32]) -> Option<Self> {
        let class = |value: &f32| match *value {
            value if value.is_nan() => Some(-1),
            value => Some(value as i32).filter(|class| *class as f32 == value),
        };
        let classes: Option<Vec<i32>> = values.iter().map(class).collect();
        classes.map(Self::Single)
    }
}

impl GraphData {
    /// A graph with only a topology.
    pub fn new(name: impl Into<String>, topology: Topology) -> Self {
        let none = vec![false; topology.vertices() as usize];
        Self {
            name: name.into(),
            topology,
            features: Features::None,
            vertex_types: Names::default(),
            edge_features: EdgeFeatures::default(),
            labels: Labels::None,
            train: none.clone(),
            val: none.clone(),
            test: none,
            subjects: 0,
            ids: Names::default(),
            class_names: Names::default(),
        }
    }

    /// Empty splits of so many rows.
    pub(crate) fn set_splits_of(&mut self, rows: usize) {
        for mask in [&mut self.train, &mut self.val, &mut self.test] {
            *mask = vec![false; rows];
        }
    }

    /// Number of vertices.
    pub fn vertices(&self) -> u32 {
        self.topology.vertices()
    }

    /// Numbers that a model computes for a vertex: the largest class plus one, or as many as its
    /// label has; 0 without labels.
    pub fn classes(&self) -> u32 {
        match &self.labels {
            Labels::None => 0,
            Labels::Single(labels) => labels
                .iter()
                .max()
                .map_or(0, |&max| (i64::from(max) + 1).max(0) as u32),
            Labels::Values { width, .. } => *width,
        }
    }

    /// Numbers the classes by their places among `names`.
    ///
    /// # Errors
    /// A class of a vertex that is not among them.
    pub fn number_classes(&mut self, names: &Names) -> Result<(), GraphError> {
        let Labels::Single(labels) = &mut self.labels else {
            return Ok(());
        };
        let place = |name: &str| names.iter().position(|known| known == name);
        let places: Vec<Option<usize>> = self.class_names.iter().map(place).collect();
        for label in labels {
            let Ok(number) = usize::try_from(*label) else {
                continue;
            };
            match places.get(number) {
                Some(Some(place)) => *label = *place as i32,
                Some(None) | None => {
                    let name = self.class_names.get(number).map(str::to_owned);
                    let name = name.unwrap_or_else(|| number.to_string());
                    let known: Vec<&str> = names.iter().take(8).collect();
                    return Err(GraphError::Unsupported {
                        at: self.name.clone(),
                        found: format!("the class `{name}`"),
                        expected: format!(
                            "classes of the model's own graph: {}{}",
                            known.join(", "),
                            if names.len() > known.len() {
                                ", .."
                            } else {
                                ""
                            }
                        ),
                    });
                }
            }
        }
        self.class_names = names.clone();
        Ok(())
    }

    /// What vertices are labeled with, for reports: `7 classes`.
    pub fn label_text(&self) -> String {
        match self.labels {
            Labels::None => "no labels".to_owned(),
            Labels::Single(_) => counted(self.classes(), "class"),
            Labels::Values { .. } => counted(self.classes(), "number"),
        }
    }

    /// All problems of the graph; empty if it can be trained on.
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let n = self.vertices();
        if n == 0 {
            problems.push(Problem::Empty);
        }
        let mut length = |array, found: usize, vertices: u32| {
            if found != vertices as usize {
                problems.push(Problem::Length {
                    array,
                    found,
                    vertices,
                });
            }
        };
        if let Some(rows) = self.features.rows() {
            length("features", rows, n);
        }
        match &self.labels {
            Labels::None => {}
            Labels::Single(labels) => length("labels", labels.len(), n),
            // Round up: an incomplete last row counts as a row and is noticed.
            Labels::Values { width, values } => {
                length("labels", values.len().div_ceil((*width).max(1) as usize), n)
            }
        }
        let splits = [
            ("train", &self.train),
            ("val", &self.val),
            ("test", &self.test),
        ];
        for (array, (_, mask)) in ["train_mask", "val_mask", "test_mask"]
            .into_iter()
            .zip(splits)
        {
            length(array, mask.len(), n);
        }
        if !self.ids.is_empty() {
            length("vertex_ids", self.ids.len(), n);
        }

        if let Some((count, first)) =
            matches(self.edge_features.values.iter().map(|x| !x.is_finite()))
        {
            let columns = (self.edge_features.columns as usize).max(1);
            problems.push(Problem::NotFinite {
                array: "edge_features",
                of: "edge",
                count,
                row: first / columns,
                column: (first % columns) as u32,
                value: self.edge_features.values[first],
            });
        }
        let values = self.features.values();
        if let Some((count, first)) = matches(values.iter().map(|x| !x.is_finite())) {
            let (row, column) = self.features.place(first);
            problems.push(Problem::NotFinite {
                array: "features",
                of: "vertex",
                count,
                row,
                column,
                value: values[first],
            });
        }
        let labeled = |v: usize| match v.checked_sub(self.subjects().start as usize) {
            Some(number) => Labeled {
                unit: self.unit(),
                number,
            },
            None => Labeled {
                unit: "vertex",
                number: v,
            },
        };
        if let Labels::Single(labels) = &self.labels {
            let bad = labels
                .iter()
                .map(|&l| l < -1 || i64::from(l) >= i64::from(n));
            if let Some((count, vertex)) = matches(bad) {
                problems.push(Problem::LabelOutOfRange {
                    count,
                    of: labeled(vertex),
                    label: labels[vertex],
                    limit: n,
                });
            }
        }
        if let Labels::Values { width, values } = &self.labels
            && let Some((count, first)) = matches(values.iter().map(|x| x.is_infinite()))
        {
            let width = (*width).max(1) as usize;
            problems.push(Problem::NotFinite {
                array: "labels",
                of: "vertex",
                count,
                row: first / width,
                column: (first % width) as u32,
                value: values[first],
            });
        }
        for (split, mask) in splits {
            let unknown = mask
                .iter()
                .enumerate()
                .map(|(v, &in_split)| in_split && !self.labels.known(v));
            if let Some((count, vertex)) = matches(unknown) {
                problems.push(Problem::Unlabelled {
                    split,
                    count,
                    of: labeled(vertex),
                });
            }
        }
        for (i, (first, a)) in splits.into_iter().enumerate() {
            for (second, b) in splits.into_iter().skip(i + 1) {
                if let Some((count, vertex)) =
                    matches(a.iter().zip(b.iter()).map(|(&a, &b)| a && b))
                {
                    problems.push(Problem::Overlap {
                        first,
                        second,
                        count,
                        of: labeled(vertex),
                    });
                }
            }
        }
        problems
    }
}

/// How many are true, and the index of the first.
fn matches(found: impl Iterator<Item = bool>) -> Option<(usize, usize)> {
    let mut hits = found.enumerate().filter(|(_, hit)| *hit).map(|(i, _)| i);
    let first = hits.next()?;
    Some((1 + hits.count(), first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn a_good_graph_has_no_problems() {
        assert_eq!(example::g8().validate(), []);
        assert_eq!(example::g8().classes(), 2);
    }

    #[test]
    fn every_problem_is_found_in_one_go() {
        let mut data = example::g8();
        let mut values = data.features.values().to_vec();
        (values[6], values[9]) = (f32::NAN, f32::INFINITY);
        data.features = Features::dense(8, 4, values);
        data.labels = Labels::Single(vec![0, -1, -2, 9, 1, 1, 1, 1]);
        data.train = vec![true; 7];
        data.val = vec![true; 8];
        data.test = vec![false; 8];
        let problems = data.validate();
        let text: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 6, "{text:#?}");
        assert!(text[1].contains(
            "found 2 non-finite numbers in `features`, the first is NaN at vertex 1, column 2"
        ));
        assert!(
            text[2].contains(
                "found 2 labels out of range, the first is -2 of vertex 2; expected 0 to 7"
            )
        );
    }

    #[test]
    fn vertices_of_a_split_have_numbers() {
        let mut data = example::g8();
        let mut values = vec![1.5; 24];
        data.labels = Labels::Values {
            width: 3,
            values: values.clone(),
        };
        assert_eq!((data.validate(), data.classes()), (vec![], 3));
        // Vertex 0 is trained, vertex 3 is in no split.
        data.test = vec![false; 8];
        values[..3].fill(f32::NAN);
        (values[9], values[10]) = (f32::NAN, f32::INFINITY);
        values.push(0.0);
        data.labels = Labels::Values { width: 3, values };
        let text: Vec<_> = data.validate().iter().map(ToString::to_string).collect();
        assert_eq!(text.len(), 3, "{text:#?}");
        assert!(text[1].contains("the first is inf at vertex 3, column 1"));
        assert!(text[2].contains("found 1 vertex of the train split without a label"));
    }
}
