#!/usr/bin/env bash
# What needs a GPU: the tests marked so, then traced and untraced runs and what the trace says.
#   tests/gpu/run.sh [OUT]        OUT: where traces and the report go (default: a new folder)
#   PYTHON=python3.12             the interpreter whose torch sees the GPU (default: .venv's)
#   WHEELS=folder                 wheels of what that interpreter lacks; nothing is fetched
set -euo pipefail
cd "$(dirname "$0")/../.."
out="${1:-$(mktemp -d)}"
python="${PYTHON:-.venv/bin/python}"
mkdir -p "$out"
export PYTHONPATH=. PYTHONUNBUFFERED=1

if [ -n "${WHEELS:-}" ]; then
  "$python" -m pip install --quiet --no-index --no-deps "$WHEELS"/*.whl
fi
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
fi
"$python" -c 'import sys, torch; print(f"torch {torch.__version__}, {torch.cuda.device_count()} GPUs"); sys.exit(not torch.cuda.is_available())'

failed=0
"$python" -m pytest -m gpu tests/gpu -rP --durations=5 2>&1 | tee "$out/tests.log" || failed=1

rate='import json, sys; told = json.load(sys.stdin); print("{steps_per_s:.0f} steps/s, loss {loss:.3f}".format(**told))'
for devices in cuda:0 cuda:0,cuda:0 cpu:1; do
  for strategy in one_device parameter_server_v1; do
    for trace in none all; do
      name="$strategy-${devices//[:,]/}-$trace"
      echo -n "digits-mlp $strategy $devices --trace $trace: "
      "$python" -m tracer run digits-mlp --strategy "$strategy" --devices "$devices" --steps 300 \
        --trace "$trace" --out "$out/$name.trace" --json 2>"$out/$name.log" | "$python" -c "$rate" \
        || { failed=1; tail -5 "$out/$name.log"; }
    done
  done
done

"$python" -m vizdist report "$out/one_device-cuda0-all.trace" | tee "$out/report.txt" || failed=1
exit "$failed"
