// Loads a GGUF file, opens a context and decodes, and stops at each phase, so that whoever started it can read NVML.
//
// c++ -std=c++17 gpu_llama_cpp.cpp -I LLAMA/include -I LLAMA/ggml/include -L BUILD/bin -lllama -lggml -lggml-base -o gpu_llama_cpp
//
//   gpu_llama_cpp FILE key=value...   keys: ngl ctx seq batch ubatch fa (-1 auto, 0, 1) k v (ggml type numbers) unified swa_full
//
// A line of output for each phase; it goes on when it reads a line. What llama.cpp itself prints is on the error output.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

static void phase(const char * name) {
    printf("%s\n", name);
    fflush(stdout);
    char line[16];
    if (!fgets(line, sizeof line, stdin)) exit(3);
}

static bool decode(llama_context * ctx, int n_seq, int n_tokens, int from, int n_vocab) {  // n_tokens of each sequence
    llama_batch batch = llama_batch_init(n_seq * n_tokens, 0, 1);
    for (int s = 0; s < n_seq; s++) {
        for (int i = 0; i < n_tokens; i++) {
            const int n = batch.n_tokens++;
            batch.token[n] = (s * 131 + i * 7 + 1) % n_vocab;
            batch.pos[n] = from + i;
            batch.n_seq_id[n] = 1;
            batch.seq_id[n][0] = s;
            batch.logits[n] = i == n_tokens - 1;
        }
    }
    const int code = llama_decode(ctx, batch);
    llama_synchronize(ctx);
    llama_batch_free(batch);
    return code == 0;
}

int main(int argc, char ** argv) {
    std::map<std::string, int> o = {{"ngl", 999}, {"ctx", 8192}, {"seq", 1}, {"batch", 2048}, {"ubatch", 512}, {"fa", -1}, {"k", GGML_TYPE_F16}, {"v", GGML_TYPE_F16}, {"unified", 0}, {"swa_full", 0}};
    for (int i = 2; i < argc; i++) {
        const char * is = strchr(argv[i], '=');
        if (is) o[std::string(argv[i], is - argv[i])] = atoi(is + 1);
    }
    phase("started");
    llama_backend_init();
    llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = o["ngl"];
    llama_model * model = llama_model_load_from_file(argv[1], mp);
    if (!model) return 1;
    phase("model");
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = o["ctx"];
    cp.n_seq_max = o["seq"];
    cp.n_batch = o["batch"];
    cp.n_ubatch = o["ubatch"];
    cp.flash_attn_type = (llama_flash_attn_type) o["fa"];
    cp.type_k = (ggml_type) o["k"];
    cp.type_v = (ggml_type) o["v"];
    cp.kv_unified = o["unified"];
    cp.swa_full = o["swa_full"];
    llama_context * ctx = llama_init_from_model(model, cp);
    if (!ctx) return 2;
    phase("context");
    const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    const int each = (int) llama_n_batch(ctx) / o["seq"], room = (int) llama_n_ctx_seq(ctx) - 8;
    const int first = each < room ? each : room;
    if (!decode(ctx, o["seq"], first, 0, n_vocab)) return 4;
    phase("prefill");
    for (int i = 0; i < 4; i++)
        if (!decode(ctx, o["seq"], 1, first + i, n_vocab)) return 4;
    phase("decode");
    llama_free(ctx);
    llama_model_free(model);
    phase("freed");
    return 0;
}
