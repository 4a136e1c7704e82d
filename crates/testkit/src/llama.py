"""Starts the HTTP server of llama.cpp: llama.py MODEL HOST PORT"""

import signal
import sys

import xllamacpp

# A chat template with tools: that of the model has none, and the server would ignore tools without a word.
TEMPLATE = """{%- if tools %}<|im_start|>system
You can call tools. Tools:
{% for tool in tools %}{{ tool.function | tojson }}
{% endfor %}To call one, answer with <tool_call>{"name": "the name", "arguments": {}}</tool_call> and nothing else.<|im_end|>
<|im_start|>user
Say good morning with the tool.<|im_end|>
<|im_start|>assistant
<tool_call>{"name": "echo", "arguments": {"text": "good morning"}}</tool_call><|im_end|>
<|im_start|>tool
<tool_response>{"message": "good morning"}</tool_response><|im_end|>
<|im_start|>assistant
The tool said good morning.<|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.tool_calls %}{% for call in message.tool_calls %}<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}{% elif message.role == 'tool' %}<tool_response>{{ message.content }}</tool_response>{% else %}{{ message.content }}{% endif %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

model, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
parameters = xllamacpp.CommonParams()
parameters.model.path = model
parameters.hostnames = [host]
parameters.port = port
parameters.n_ctx = 8192
parameters.n_parallel = 2
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 1
parameters.use_jinja = True
parameters.chat_template = TEMPLATE
parameters.endpoint_metrics = True
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
signal.pause()
