//! Where vertices lie on a curve through their coordinates.

use crate::{GraphError, Topology};

impl Topology {
    /// The topology with the place of each vertex on a curve; as it is without places.
    ///
    /// # Errors
    /// Places that are not the numbers from 0 up to the vertices, each once.
    pub fn on_curve(mut self, places: Vec<u32>) -> Result<Self, GraphError> {
        let vertices = self.vertices() as usize;
        let mut taken = vec![false; vertices];
        for place in &places {
            match taken.get_mut(*place as usize) {
                Some(taken) if !*taken => *taken = true,
                Some(_) | None => {
                    return Err(GraphError::Unsupported {
                        at: "curve".to_owned(),
                        found: format!("place {place} twice, or of no vertex"),
                        expected: format!("the numbers from 0 to below {vertices}, each once"),
                    });
                }
            }
        }
        if !places.is_empty() && places.len() != vertices {
            return Err(GraphError::WrongLength {
                at: "curve".to_owned(),
                unit: "vertices",
                found: places.len() as u64,
                expected: vertices as u64,
            });
        }
        self.places = places;
        Ok(self)
    }

    /// The place of each vertex on a curve through their coordinates; empty if the graph has none.
    pub fn places_on_curve(&self) -> &[u32] {
        &self.places
    }
}
