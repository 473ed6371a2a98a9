"""The architecture of a model as its GGUF file names it, where Ollama's rules ask for it by that name.

llama.cpp convert_hf_to_gguf.py (class -> MODEL_ARCH); Ollama's own convert/*.go call a few otherwise.
"""

from __future__ import annotations

#: Class of transformers -> general.architecture.
_NAMES = {
    "LlamaForCausalLM": "llama", "MistralForCausalLM": "llama", "MixtralForCausalLM": "llama", "IQuestCoderForCausalLM": "llama",
    "Llama4ForConditionalGeneration": "llama4", "Llama4ForCausalLM": "llama4", "MllamaForConditionalGeneration": "mllama",
    "GemmaForCausalLM": "gemma", "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3", "Gemma3ForConditionalGeneration": "gemma3",
    "Gemma3nForConditionalGeneration": "gemma3n", "Gemma3nForCausalLM": "gemma3n", "Gemma4ForConditionalGeneration": "gemma4",
    "Gemma4ForCausalLM": "gemma4", "CohereForCausalLM": "command-r", "Qwen2ForCausalLM": "qwen2", "PhiForCausalLM": "phi2",
    "StableLmForCausalLM": "stablelm", "DeepseekV2ForCausalLM": "deepseek2", "DeepseekV3ForCausalLM": "deepseek2",
    "KimiK2ForCausalLM": "deepseek2", "ChatGLMModel": "chatglm", "ChatGLMForConditionalGeneration": "chatglm",
    "GptOssForCausalLM": "gptoss", "Mistral3ForConditionalGeneration": "mistral3", "Qwen2_5_VLForConditionalGeneration": "qwen25vl",
    "Qwen3ForCausalLM": "qwen3", "Qwen3MoeForCausalLM": "qwen3moe", "Qwen3VLForConditionalGeneration": "qwen3vl",
    "Qwen3VLMoeForConditionalGeneration": "qwen3vlmoe", "Qwen3NextForCausalLM": "qwen3next", "Qwen3_5ForCausalLM": "qwen35",
    "Qwen3_5ForConditionalGeneration": "qwen35", "Qwen3_5MoeForCausalLM": "qwen35moe", "Qwen3_5MoeForConditionalGeneration": "qwen35moe",
    "Lfm2ForCausalLM": "lfm2", "Lfm2MoeForCausalLM": "lfm2moe", "NemotronHForCausalLM": "nemotron_h", "Olmo3ForCausalLM": "olmo3",
    "Glm4MoeLiteForCausalLM": "glm4moelite", "GlmOcrForConditionalGeneration": "glmocr", "DeepseekOCRForCausalLM": "deepseekocr",
    "LagunaForCausalLM": "laguna", "Grok1ForCausalLM": "grok", "Phi3ForCausalLM": "phi3", "BertModel": "bert",
    "BertForMaskedLM": "bert", "NomicBertModel": "nomic-bert",
}  # fmt: skip
#: llama.cpp's name -> Ollama's.
_OWN = {"gpt-oss": "gptoss", "qwen2vl": "qwen25vl", "cohere": "command-r"}


def gguf_name(architecture: str) -> str:
    """`LlamaForCausalLM` -> `llama`; a name that is in no rule comes back as it is."""
    return _OWN.get(architecture, _NAMES.get(architecture, architecture))
