//! Files of other programs that gnnc does not read: they are known by their first bytes or their
//! endings, and the error says how to convert them.

use crate::GraphError;
use std::path::Path;

/// Bytes of a file that [`check`] should see.
pub(crate) const SEEN: usize = 512;

/// A program whose files these are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Torch,
    Dgl,
    Pickle,
    Hdf5,
}

/// The endings of file names.
const ENDINGS: [(&str, Owner); 8] = [
    ("pt", Owner::Torch),
    ("pth", Owner::Torch),
    ("bin", Owner::Dgl),
    ("dgl", Owner::Dgl),
    ("pkl", Owner::Pickle),
    ("pickle", Owner::Pickle),
    ("h5", Owner::Hdf5),
    ("hdf5", Owner::Hdf5),
];

impl Owner {
    /// The owner of a file that starts with these bytes.
    fn of_content(start: &[u8]) -> Option<Self> {
        // The first name in a zip archive.
        let zip = start.strip_prefix(b"PK\x03\x04");
        let length = zip.and_then(|rest| Some(usize::from(*rest.get(22)?)));
        let name = zip.and_then(|rest| rest.get(26..26 + length?));
        if name.is_some_and(|name| name.ends_with(b"/data.pkl")) {
            return Some(Self::Torch);
        }
        // The number with which torch.save began before its archives, in a pickle.
        if start.starts_with(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19") {
            return Some(Self::Torch);
        }
        if start.starts_with(b"\x89HDF\r\n\x1a\n") {
            return Some(Self::Hdf5);
        }
        match start {
            [0xdd, 0x2e, 0x4f, 0xf0, 0x46, 0xb4, 0xa1, 0x3f, ..]
            | [0x3f, 0xa1, 0xb4, 0x46, 0xf0, 0x4f, 0x2e, 0xdd, ..] => Some(Self::Dgl),
            [0x80, 2..=5, ..] => Some(Self::Pickle),
            _ => None,
        }
    }

    /// The owner of a file with this name.
    fn of_name(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        let known = ENDINGS.iter().find(|(own, _)| *own == ending);
        known.map(|(_, owner)| *owner)
    }

    /// What the file is, and the lines of Python that convert it.
    fn advice(self, file: &str) -> [String; 2] {
        let (found, lines) = match self {
            Self::Torch => (
                "a file of PyTorch",
                "import torch, numpy; d = torch.load(FILE, map_location=\"cpu\", weights_only=False)\n\
                 d, s = (*d, None)[:2] if isinstance(d, tuple) else (d, None); assert not s or len(s[\"edge_index\"]) == 2, \"several graphs\"\n\
                 numpy.savez(\"graph.npz\", **{k: torch.as_tensor(v).detach() for k, v in getattr(d, \"to_dict\", lambda: d)().items() if isinstance(v, (torch.Tensor, int))})",
            ),
            Self::Dgl => (
                "a file of DGL",
                "import dgl, numpy; (g,), _ = dgl.load_graphs(FILE); assert g.is_homogeneous, g\n\
                 d = {{\"feat\": \"edge_attr\", \"weight\": \"edge_weight\", \"w\": \"edge_weight\"}.get(k, k): v for k, v in g.edata.items()}\n\
                 d |= {{\"feat\": \"x\", \"label\": \"y\"}.get(k, k): v for k, v in g.ndata.items()}; numpy.savez(\"graph.npz\", edge_index=numpy.stack(g.edges()), num_nodes=g.num_nodes(), **d)",
            ),
            Self::Pickle => (
                "a pickle of Python",
                "import pickle, networkx; g = pickle.load(open(FILE, \"rb\"))\n\
                 print(type(g))  # the next line is for a graph of NetworkX\n\
                 networkx.write_graphml(g, \"graph.graphml\")",
            ),
            Self::Hdf5 => (
                "a file of HDF5",
                "import h5py, numpy; f = h5py.File(FILE); f.visit(print)\n\
                 # with the names that were printed:\n\
                 numpy.savez(\"graph.npz\", edge_index=f[\"edges\"][:], x=f[\"features\"][:], y=f[\"labels\"][:])",
            ),
        };
        let file = format!("{file:?}");
        let lines: Vec<String> = lines.lines().map(|line| format!("  {line}")).collect();
        [found.to_owned(), lines.join("\n").replace("FILE", &file)]
    }
}

/// Refuses a file of another program.
///
/// # Errors
/// If it is one, by its first bytes or its name.
pub(crate) fn check(path: &Path, start: &[u8]) -> Result<(), GraphError> {
    // A name says nothing against content that gnnc knows; but torch.save and numpy.savez both make zip
    // archives.
    let own = [&b"\x1f\x8b"[..], b"%%MatrixMarket", b"PAR1"];
    let known = own.iter().any(|own| start.starts_with(own));
    let is_zip = start.starts_with(b"PK\x03\x04");
    let named = Owner::of_name(path).filter(|owner| !known && (!is_zip || *owner == Owner::Torch));
    let Some(owner) = Owner::of_content(start).or(named) else {
        return Ok(());
    };
    let at = super::place(path);
    let [found, python] = owner.advice(&at);
    Err(GraphError::Foreign { at, found, python })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, start: &[u8]) -> String {
        match check(Path::new(name), start) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn other_programs_files_are_known_by_content_or_name() {
        let mut zip = b"PK\x03\x04".to_vec();
        zip.extend([0; 22]);
        zip.extend([16, 0, 0, 0]);
        zip.extend(b"archive/data.pkl");
        for (name, start, found) in [
            ("cora.npz", &zip[..], "PyTorch"),
            ("data.pt", b"anything", "PyTorch"),
            (
                "x",
                b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",
                "PyTorch",
            ),
            ("g.csv", b"\x89HDF\r\n\x1a\n", "HDF5"),
            ("g.BIN", b"", "DGL"),
            ("g.pth", b"PK\x03\x04", "PyTorch"),
            ("g.txt", b"\x80\x04\x95", "pickle"),
        ] {
            let said = refused(name, start);
            assert!(said.contains(found), "{name}: {said}");
            assert_eq!(said.lines().count(), 4, "{said}");
        }
        for (name, start) in [
            ("g.npz", &b"PK\x03\x04"[..]),
            ("g.npz", &zip[..20]),
            ("g.csv", b"0,1\n"),
            ("g", b""),
            ("g.pkl", b"PK\x03\x04"),
            ("data.pt", b"PAR1"),
        ] {
            assert_eq!(refused(name, start), "");
        }
    }
}
