"""Multimodal wrappers, one row each by model type: which text family, which towers, what joins them."""

from __future__ import annotations

from kvplan.importers.hf.rows import Row
from kvplan.importers.hf.wrappers import Tower, Wrapper


def _w(family: str, *towers: Tower, **more: object) -> Row:
    return Row("wrappers:wrapper", Wrapper(family, towers, **more))  # type: ignore[arg-type]


def _v(model_type: str, projector: str = "none", key: str = "vision_config") -> Tower:
    return Tower(key, model_type, projector)


_MOONVIT = {
    "hidden_size": ("vt_hidden_size", "hidden_size"), "intermediate_size": ("vt_intermediate_size", "intermediate_size"),
    "num_hidden_layers": ("vt_num_hidden_layers", "num_hidden_layers"), "pos_emb_height": ("init_pos_emb_height", "pos_emb_height"),
    "pos_emb_width": ("init_pos_emb_width", "pos_emb_width"),
}  # fmt: skip
_KIMI = _w("deepseek_v3", Tower("vision_config", "kimi_k25_vision", "kimi", names=_MOONVIT))
_NAMED = "the image tower and its projector are not counted: the config only names them"
_OMNI = "talker and token2wav are not counted: engines serve the thinker, which is what the cache belongs to"

WRAPPERS: dict[str, Row] = {
    "llava": _w("llama", _v("clip_vision_model", "llava")),
    "vipllava": _w("llama", _v("clip_vision_model", "vipllava")),
    "llava_next": _w("llama", _v("clip_vision_model", "llava_newline")),
    "llava_next_video": _w("llama", _v("clip_vision_model", "llava_newline")),
    "llava_onevision": _w("qwen2", _v("siglip_vision_model", "llava_newline")),
    "paligemma": _w("gemma", _v("siglip_vision_model", "linear")),
    "mistral3": _w("mistral", _v("pixtral", "mistral3")),
    "idefics3": _w("llama", _v("idefics3_vision", "idefics3")),
    "smolvlm": _w("llama", _v("smolvlm_vision", "idefics3")),
    "internvl": _w("qwen2", _v("internvl_vision", "internvl")),
    "internvl_chat": _w("qwen2", _v("intern_vit_6b", "internvl"), text="llm_config"),
    "qwen2_vl": _w("qwen2", _v("qwen2_vl_vision"), flat=True),
    "qwen2_5_vl": _w("qwen2", _v("qwen2_5_vl_vision"), flat=True),
    "qwen3_vl": _w("qwen3", _v("qwen3_vl_vision")),
    "qwen3_vl_moe": _w("qwen3_moe", _v("qwen3_vl_moe_vision")),
    "qwen3_5": _w("qwen3_5_text", _v("qwen3_5_vision"), flat=True),
    "qwen3_5_moe": _w("qwen3_5_moe_text", _v("qwen3_5_moe_vision"), flat=True),
    "qwen2_audio": _w("qwen2", Tower("audio_config", "qwen2_audio_encoder", "qwen2_audio", "audio_tower")),
    "qwen2_5_omni": _w("qwen2", Tower("audio_config", "qwen2_5_omni_audio_encoder", name="audio_tower"),
        _v("qwen2_5_omni_vision_encoder"),
                       inside="thinker_config", unstated=_OMNI),
    "qwen2_5_omni_thinker": _w("qwen2", Tower("audio_config", "qwen2_5_omni_audio_encoder", name="audio_tower"),
        _v("qwen2_5_omni_vision_encoder")),
    "qwen3_omni_moe": _w("qwen3_moe", Tower("audio_config", "qwen3_omni_moe_audio_encoder", name="audio_tower"),
        _v("qwen3_omni_moe_vision_encoder"),
                         inside="thinker_config", unstated=_OMNI),
    "qwen3_omni_moe_thinker": _w("qwen3_moe", Tower("audio_config", "qwen3_omni_moe_audio_encoder", name="audio_tower"),
                                 _v("qwen3_omni_moe_vision_encoder")),
    "voxtral": _w("llama", Tower("audio_config", "voxtral_encoder", "voxtral", "audio_tower")),
    "gemma3": _w("gemma3_text", _v("siglip_vision_model", "gemma3")),
    "gemma3n": _w("gemma3n_text", _v("gemma3n_vision"), Tower("audio_config", "gemma3n_audio", name="audio_tower")),
    "gemma4": _w("gemma4_text", _v("gemma4_vision", "gemma4"), Tower("audio_config", "gemma4_audio", "gemma4_audio", "audio_tower")),
    "llama4": _w("llama4_text", _v("llama4_vision_model", "llama4"), inner_head=True),
    "mllama": _w("mllama_text_model", _v("mllama_vision_model", "mllama")),
    "glm4v": _w("glm4v_text", _v("glm4v_vision"), flat=True),
    "glm46v": _w("glm4v_text", _v("glm4v_vision"), flat=True),
    "glm4v_moe": _w("glm4v_moe_text", _v("glm4v_moe_vision"), flat=True),
    "minimax_m3_vl": _w("minimax_m3_vl_text", _v("minimax_m3_vl_vision", "minimax_m3")._replace(own=True)),
    "step3p7": _w("step3p5", _v("step3p5_vision", "step3p7")._replace(own=True)),
    "step_robotics": _w("step3p5", _v("step3p5_vision", "unknown")),
    "step3_vl": _w("step3_text", _v("step3_vision_encoder", "unknown")),
    "glm5_next": _w("glm5_next_text", _v("glm5_next_vision"), flat=True),
    "mistral_large4": _w("mistral_large4_text", _v("pixtral", "mistral3")),
    "muse_glimmer": _w("muse_glimmer_text", _v("muse_glimmer_vision", "muse_glimmer")),
    "voxtral_realtime": _w("voxtral_realtime_text", Tower("audio_config", "voxtral_realtime_encoder", "voxtral", "audio_tower")),
    "audioflamingo3": _w("qwen2", Tower("audio_config", "audioflamingo3_encoder", "audio_pair", "audio_tower")),
    "musicflamingo": _w("qwen2", Tower("audio_config", "audioflamingo3_encoder", "audio_pair", "audio_tower")),
    "qwen3_asr": _w("qwen3", Tower("audio_config", "qwen3_asr_encoder", "qwen3_asr", "audio_tower"), inside="thinker_config"),
    "glmasr": _w("llama", Tower("audio_config", "glmasr_encoder", "glmasr", "audio_tower")),
    "granite_speech": _w("granite", Tower("encoder_config", "granite_speech_encoder", "granite_speech", "audio_tower")),
    "deepseek_vl": _w("llama", _v("siglip_vision_model", "aligner")),
    "deepseek_ocr": _w("deepseek_v2", text="language_config", unstated="the image encoders and what joins them are not counted"),
    "phi4_multimodal": _w("phi4_multimodal_text", _v("phi4_multimodal_vision", "phi4_image"),
                          Tower("audio_config", "phi4_multimodal_audio", "phi4_audio", "audio_tower"), flat=True, text=""),
    "ovis": _w("qwen2", text="llm_config", unstated="the visual tokenizer is not counted: no formula"),
    "ovis2_6_moe": _w("qwen3_moe", _v("siglip2_navit", "unknown", "vit_config"), text="llm_config"),
    "llava_llama": _w("llama", flat=True, text="", unstated=_NAMED),
    "llava_mistral": _w("mistral", flat=True, text="", unstated=_NAMED),
    "llava_qwen": _w("qwen2", flat=True, text="", unstated=_NAMED),
    "gemma4_unified": _w(
        "gemma4_unified_text", unstated="released without encoders; small projections of images and sound are not counted"),
    "nemotron_h_omni": _w("nemotron_h", _v("radio", "nemotron_omni"), Tower("audio_config", "parakeet_encoder", name="audio_tower"),
                          inner_head=True),
    "kimi_k25": _KIMI,
    "kimi_k3": _w("kimi_linear", Tower("vision_config", "kimi_k3_vision", "kimi_k3", names=_MOONVIT)),
    "kimi_vl": _KIMI,
    "aya_vision": _w("cohere2", _v("siglip_vision_model", "aya")),
    "cohere2_vision": _w("cohere2", _v("siglip_vision_model", "cohere2_vision")),
    "lfm2_vl": _w("lfm2", _v("siglip2_vision_model", "lfm2_vl")),
    "ovis2": _w("qwen2", _v("ovis2_vision", "ovis2")),
    "paddleocr_vl": _w("paddleocr_vl_text", _v("paddleocr_vl_vision", "paddleocr"), flat=True),
    "hyperclovax_vision_v2": _w("hyperclovax", _v("qwen2_5_vl_vision", "one_linear")),
    "qianfan_ocr": _w("qwen3", _v("qianfan_ocr_vision", "internvl")),
    "molmo2": _w("molmo2_text", _v("molmo2_vision", "molmo2")._replace(older="vit_config")),
    "minicpmv4_6": _w("qwen3_5_text", _v("minicpmv4_6_vision", "minicpmv4_6")),
    "minicpmv4_7": _w("qwen3_5_text", _v("minicpmv4_7_vision", "minicpmv4_6")),
    "ernie4_5_vl_moe": _w("ernie4_5_vl_moe_text", _v("ernie4_5_vl_moe_vision", "ernie"), flat=True),
    "idefics2": _w("mistral", _v("idefics2_vision", "idefics2")),
    "aria": _w("aria_text", _v("idefics3_vision", "aria")),
    "exaone4_5": _w("exaone4", _v("exaone4_5_vision")),
    "lighton_ocr": _w("qwen3", _v("pixtral", "mistral3")),
    "glm_ocr": _w("glm_ocr_text", _v("glm_ocr_vision")),
    "interns1": _w("qwen3", _v("interns1_vision", "unknown")),
    "llama_nemotron_vl": _w("llama", _v("radio", "unknown"), text="llm_config"),
    "nemotron_h_vl": _w("nemotron_h", _v("radio", "unknown"), text="llm_config"),
    "ovis2_5": _w("qwen3", _v("siglip2_navit", "unknown", "vit_config"), text="llm_config"),
    "dots_ocr": _w("qwen2", _v("dots_vit", "unknown"), flat=True),
    "keye": _w("qwen3", _v("keye_vision", "unknown"), flat=True),
    "opencua": _w("qwen2", _v("qwen2_5_vl_vision")),
    "eagle2_5_vl": _w("qwen2", _v("siglip_vision_model", "unknown")),
    "deepseek_vl_v2": _w("deepseek_v2", _v("vision", "unknown"), text="language_config"),
    "phi4mm": _w("phi3", flat=True, text="", unstated="image and audio towers and their adapters are not counted"),
    "ultravox": _w("llama", Tower("audio_config", "whisper", name="audio_tower", projector="unknown")),
    "lfm3_vl": _w("lfm3", _v("lfm3_vl_vision", "lfm3_vl")),
    "video_llama_3": _w("qwen2", _v("video_llama_3_vision", "aligner")),
    "video_llava": _w("llama", _v("clip_vision_model")._replace(name="video_tower"), _v("clip_vision_model", "llava")),
    "got_ocr2": _w("qwen2", _v("got_ocr2_vision", "got_ocr2")),
    "blip-2": _w("opt", _v("blip_2_vision_model", "q_former")),
    "instructblip": _w("opt", _v("instructblip_vision_model", "q_former")),
    "instructblipvideo": _w("opt", _v("instructblipvideo_vision_model", "q_former")),
    "cosmos3_omni": _w("qwen3_vl_text", _v("qwen3_vl_vision")),
    "interns1_pro": _w("interns1_pro_text", _v("interns1_pro_vision"), unstated="the time-series encoder is not counted: vLLM builds none"),
}  # fmt: skip
