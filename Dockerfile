# gnnc on the command line, with Open MPI.
#
#     docker build --build-arg GNNC_COMMIT="$(scripts/commit.sh)" --tag gnnc .
#     docker run --rm --volume "$PWD":/data gnnc train model.gir
#     docker run --rm --volume "$PWD":/data --entrypoint mpirun gnnc -n 4 gnnc train model.gir
#
# For GPUs, an image that has NVRTC, cuBLAS and NCCL, and the NVIDIA Container Toolkit, which brings the driver:
#
#     docker build --build-arg BASE=nvidia/cuda:13.0.1-runtime-ubuntu24.04 --tag gnnc:cuda .
#     docker run --rm --gpus all --volume "$PWD":/data gnnc:cuda train model.gir --device cuda
ARG BASE=debian:bookworm-slim

FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
ARG GNNC_COMMIT=
RUN cargo build --release --locked --bin gnnc && strip target/release/gnnc

FROM ${BASE}
RUN apt-get update \
  && apt-get install --yes --no-install-recommends openmpi-bin openssh-client \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --create-home --user-group gnnc
COPY --from=build /source/target/release/gnnc /usr/local/bin/gnnc
COPY examples /usr/share/gnnc/examples
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/gnnc/
USER gnnc
WORKDIR /data
ENTRYPOINT ["gnnc"]
CMD ["--help"]
