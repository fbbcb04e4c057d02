"""Continues a line with the trained model of docs/tour.md, in ONNX Runtime."""
import numpy, onnxruntime
session = onnxruntime.InferenceSession("trained/lm.onnx")
ids = numpy.zeros((1, 64), numpy.int64)
prompt = [1] + [3 + c for c in b"You may reproduce and distribute "]   # 1: <bos>; a byte c is token 3 + c
for at in range(len(prompt), 60):
    ids[0, :at] = prompt
    prompt.append(int(session.run(["logits"], {"ids": ids})[0][0, at - 1].argmax()))
print(bytes(t - 3 for t in prompt[1:] if t > 2).decode(errors="replace"))
