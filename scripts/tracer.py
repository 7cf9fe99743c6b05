#!/usr/bin/env python3
"""Generate `examples/data/tracer.npz`: a tracer in a steady flow, on a grid and a coarser mesh.

    pip install numpy==2.2.6
    scripts/tracer.py examples/data/tracer.npz

The concentration c obeys c_t + u . grad c = k lap c on the unit square with periodic borders. The flow u is the same in
all samples; the first field is random and smooth. The equation is solved by Fourier series on a grid of 48 x 48 with the
classical Runge-Kutta method, and every second point of it is kept. A sample is the field at one time, and the label of a
grid point how much it changes until DT later.

The graph has the 576 points of the grid, then the 144 of the mesh. Its plain edges connect neighbors of the mesh and of
the mesh thinned twice and four times. The named sets `to mesh` and `to grid` connect each point of the grid with the four
points of the mesh around it. Features of an edge are the offset of its source, in units of the mesh, and its length.
"""
import sys

import numpy as np

SAMPLES, FINE, GRID, MESH = 24, 48, 24, 12
DT, STEPS, DIFFUSION = 0.04, 20, 5e-4


def solve(random):
    """The field before and after DT, both on the grid."""
    k = 2 * np.pi * np.fft.fftfreq(FINE, 1 / FINE)
    kx, ky = k[:, None], k[None, :]
    at = np.arange(FINE) / FINE
    x, y = at[:, None], at[None, :]
    u = np.sin(2 * np.pi * y) + 0.5 * np.cos(2 * np.pi * (x + y))
    v = 0.8 * np.sin(2 * np.pi * x) - 0.5 * np.cos(2 * np.pi * (x + y))
    waves = (np.abs(kx) < 2 * np.pi * 3.5) & (np.abs(ky) < 2 * np.pi * 3.5)
    kept = (np.abs(kx) < 2 * np.pi * FINE / 3) & (np.abs(ky) < 2 * np.pi * FINE / 3)
    field = np.fft.fft2(random.standard_normal((FINE, FINE))) * waves / (1 + (kx**2 + ky**2) / 400)
    start = np.real(np.fft.ifft2(field))
    start /= start.std()

    def change(c):
        dx, dy = np.real(np.fft.ifft2(1j * kx * c)), np.real(np.fft.ifft2(1j * ky * c))
        return -1.0 * kept * np.fft.fft2(u * dx + v * dy) - DIFFUSION * (kx**2 + ky**2) * c

    c, h = np.fft.fft2(start), DT / STEPS
    for _ in range(STEPS):
        a = change(c)
        b = change(c + h / 2 * a)
        d = change(c + h / 2 * b)
        c = c + h / 6 * (a + 2 * b + 2 * d + change(c + h * d))
    thin = slice(None, None, FINE // GRID)
    end = np.real(np.fft.ifft2(c))
    return [field[thin, thin].ravel() for field in (start, end, u * np.ones_like(start), v * np.ones_like(start))]


def edges():
    """Ends, types and features of the edges."""
    listed = []

    def mesh(i, j):
        return GRID * GRID + i % MESH * MESH + j % MESH

    def add(source, target, kind, dx, dy):
        listed.append((source, target, kind, dx, dy, np.hypot(dx, dy)))

    for step in (1, 2, 4):
        for i in range(0, MESH, step):
            for j in range(0, MESH, step):
                for a in (-1, 0, 1):
                    for b in (-1, 0, 1):
                        if (a, b) != (0, 0):
                            add(mesh(i + a * step, j + b * step), mesh(i, j), 0, a * step, b * step)
    ratio = GRID // MESH
    for i in range(GRID):
        for j in range(GRID):
            for a in (0, 1):
                for b in (0, 1):
                    dx, dy = i // ratio + a - i / ratio, j // ratio + b - j / ratio
                    point, near = i * GRID + j, mesh(i // ratio + a, j // ratio + b)
                    add(point, near, 1, -dx, -dy)
                    add(near, point, 2, dx, dy)
    return np.array(listed)


def euler(x, y):
    """The score of one explicit step on the grid, beside which a network has to stand."""
    c, u, v = (x[:, : GRID * GRID, k].reshape(-1, GRID, GRID) for k in range(3))
    dx = (np.roll(c, -1, 1) - np.roll(c, 1, 1)) * GRID / 2
    dy = (np.roll(c, -1, 2) - np.roll(c, 1, 2)) * GRID / 2
    around = sum(np.roll(c, s, a) for s in (-1, 1) for a in (1, 2)) - 4 * c
    found = DT * (DIFFUSION * GRID**2 * around - u * dx - v * dy)
    real = y[:, : GRID * GRID].reshape(found.shape)
    return 1 - np.mean((found - real) ** 2) / np.var(real)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    random = np.random.default_rng(0)
    found = edges()
    vertices = GRID * GRID + MESH * MESH
    x = np.zeros((SAMPLES, vertices, 4), np.float32)
    y = np.full((SAMPLES, vertices), np.nan, np.float32)
    for sample in range(SAMPLES):
        start, end, u, v = solve(random)
        x[sample, : GRID * GRID, :3] = np.stack([start, u, v], axis=1)
        y[sample, : GRID * GRID] = end - start
    x[:, GRID * GRID :, 3] = 1
    i, j = np.divmod(np.arange(GRID * GRID), GRID)
    a, b = np.divmod(np.arange(MESH * MESH), MESH)
    pos = np.concatenate([np.stack([i, j], 1) / GRID, np.stack([a, b], 1) / MESH]).astype(np.float32)
    part = np.arange(SAMPLES)
    train, val, test = part < 16, (part >= 16) & (part < 20), part >= 20
    print(f"R2 of an Euler step with central differences: {euler(x[test], y[test]):.3f}")
    np.savez_compressed(
        sys.argv[1],
        edge_index=found[:, :2].T.astype(np.int32),
        edge_type=found[:, 2].astype(np.int32),
        edge_attr=found[:, 3:].astype(np.float32),
        edge_sets=np.frombuffer(b"to mesh\nto grid\n", np.uint8),
        relations=np.array([3]),
        pos=pos,
        x=x,
        y=y,
        train_mask=train[:, None] & np.isfinite(y),
        val_mask=val[:, None] & np.isfinite(y),
        test_mask=test[:, None] & np.isfinite(y),
    )


if __name__ == "__main__":
    main()
