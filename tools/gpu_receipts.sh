#!/usr/bin/env bash
# What a machine with a GPU is asked, in the order of worth: it goes on where a step fails, and keeps every answer in one folder.
#
#   tools/gpu_receipts.sh [--quick|--full] [OUT]     ON=cpu tries the script where there is no GPU
#
#   CONFIGS    config.json files: a pass through two layers of each kind, and the most sequences that whole models hold
#   MODELS     config.json files of models that are built whole, beside their plan
#   LLAMA_CPP  a folder of llama.cpp's source, built while the rest runs
set -u
cd "$(dirname "$0")/.." || exit 1
mode=--quick
case "${1:-}" in --quick | --full) mode=$1 && shift ;; esac
out=${1:-gpu-receipts}
on=${ON:-cuda}
python=${PYTHON:-python3}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
mkdir -p "$out"
size=256MiB
[ "$mode" = --full ] && size=2GiB

if [ -n "${LLAMA_CPP:-}" ]; then
    build=${SCRATCH:-/tmp}/llama-cpp-build
    (
        cuda=ON && [ "$on" = cpu ] && cuda=OFF
        cmake -S "$LLAMA_CPP" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=$cuda -DCMAKE_CUDA_ARCHITECTURES=native -DGGML_CUDA_NCCL=OFF \
            -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF &&
            nice cmake --build "$build" --target llama -j "$(nproc)" &&
            c++ -O2 -std=c++17 tools/gpu_llama_cpp.cpp -I "$LLAMA_CPP/include" -I "$LLAMA_CPP/ggml/include" -L "$build/bin" \
                -lllama -lggml -lggml-base -Wl,-rpath,"$build/bin" -o "$build/gpu_llama_cpp"
    ) >"$out/llama-cpp-build.log" 2>&1 &
    building=$!
fi

step() { # NAME SECONDS COMMAND...: its output in OUT/NAME.log, its exit code in OUT/steps.tsv
    local name=$1 seconds=$2 began=$SECONDS code
    shift 2
    timeout "$seconds" "$@" >"$out/$name.log" 2>&1
    code=$?
    printf '%s\t%s\t%ss\n' "$name" "$code" "$((SECONDS - began))" | tee -a "$out/steps.tsv"
}

[ "$on" = cpu ] || step nvidia-smi 30 nvidia-smi -q -x
step doctor 60 "$python" -m kvplan doctor --format json
[ "$on" = cpu ] || step tests 300 "$python" -m pytest -q -W default -m gpu tests/gpu --durations=0
step kinds 240 "$python" -m kvplan validate --all-kinds --size "$size" --on "$on" --record "$out/$on-kinds.json"
step llama 180 "$python" -m kvplan validate meta-llama/llama-3.1-8b --context 8k --batch 8 --on "$on" --record "$out/$on-llama.json"
step paged 180 "$python" -m kvplan validate meta-llama/llama-3.1-8b --context 8k --batch 8 --block-size 16 --on "$on" --record "$out/$on-paged.json"
step growing 180 "$python" -m kvplan validate meta-llama/llama-3.1-8b --context 2k --layout growing --on "$on" --record "$out/$on-growing.json"
step overheads 60 "$python" tools/gpu_facts.py overheads
# shellcheck disable=SC2086
[ -z "${CONFIGS:-}" ] || step passes 180 "$python" tools/gpu_facts.py passes $CONFIGS
step speed 240 "$python" -m kvplan validate --speed --on "$on" --record "$out/$on-speed.json"
step graphs 60 "$python" tools/gpu_facts.py graphs
step rates 60 "$python" tools/gpu_facts.py rates
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True step expandable 60 "$python" tools/gpu_facts.py overheads
for config in ${MODELS:-}; do # likewise, built whole
    name=$(basename "${config%.json}")
    step "model-$name" 120 "$python" -m kvplan validate "$config" --context 2k --batch 4 --engine transformers --on "$on" --record "$out/$on-$name.json"
done
if [ -n "${LLAMA_CPP:-}" ]; then
    wait "$building"
    step llama-cpp 240 "$python" tools/gpu_llama_cpp.py "$build/gpu_llama_cpp" "$out/llama-cpp.jsonl" "${SCRATCH:-/tmp}"
fi
# shellcheck disable=SC2086
[ -z "${CONFIGS:-}" ] || step bounds 180 "$python" tools/gpu_facts.py bounds $CONFIGS
if [ "$mode" = --full ]; then
    step overheads-again 60 "$python" tools/gpu_facts.py overheads
    step kinds-again 240 "$python" -m kvplan validate --all-kinds --size "$size" --on "$on" --record "$out/$on-kinds-again.json"
fi
grep -h '^{' "$out"/{overheads,expandable,graphs,rates,passes,bounds}.log >"$out/facts.jsonl" 2>/dev/null
step check 60 "$python" -m kvplan validate --check "$out/$on"-*.json
! awk -F'\t' '$2 != 0' "$out/steps.tsv" | grep -q .
