"""weft from Python, by ctypes; the standard library alone.

    import weft
    m = weft.Model("runs/book")
    for text in m.generate("Once upon a time", max_tokens=50):
        print(text, end="")

What fails raises weft.Error with weft's own line. Logits are a memoryview of floats
(numpy.asarray takes it without a copy). Threads: a Session is for one at a time.
"""
import ctypes
import json
import os
import queue
import threading

_BYTES = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char),
                          ctypes.c_size_t)


class StepInfo(ctypes.Structure):
    """A step of training, for train's on_step."""
    _fields_ = [("step", ctypes.c_long), ("steps", ctypes.c_long)] + [
        (name, ctypes.c_double) for name in
        ("tokens", "loss", "lr", "val_loss", "val_bpb", "tokens_per_second")]


_STEP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(StepInfo))


def _load():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libweft.so.0")
    lib = ctypes.CDLL(os.environ.get("WEFT_LIBRARY") or
                      (beside if os.path.exists(beside) else "libweft.so.0"))
    p, n, i = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for name, result, *args in (
            ("version", ctypes.c_char_p), ("error", ctypes.c_char_p),
            ("set_threads", None, i),
            ("model_open", p, ctypes.c_char_p), ("model_close", None, p),
            ("model_info", ctypes.c_long, p, p, n),
            ("tokenize", ctypes.c_long, p, ctypes.c_char_p, n, p, n),
            ("detokenize", ctypes.c_long, p, p, n, p, n),
            ("session_open", p, p, i), ("session_close", None, p),
            ("feed", i, p, i, p, n, p), ("step", i, p, p, p, i, p), ("clear", i, p, i),
            ("copy", i, p, i, i), ("position", ctypes.c_long, p, i), ("state_size", n, p),
            ("state_get", i, p, i, p, n), ("state_set", i, p, i, p, n),
            ("sampler_open", p, p, ctypes.c_char_p), ("sampler_close", None, p),
            ("pick", ctypes.c_int32, p, p), ("accept", None, p, ctypes.c_int32),
            ("generate", i, p, ctypes.c_char_p, n, ctypes.c_char_p, _BYTES, p),
            ("score", ctypes.c_long, p, ctypes.c_char_p, n, p, n),
            ("train", i, ctypes.c_char_p, _STEP, p)):
        f = getattr(lib, "weft_" + name)
        f.restype, f.argtypes = result, args
    return lib


_lib = _load()


class Error(RuntimeError):
    """What weft says is wrong; code is what the program would exit with."""

    def __init__(self, code):
        super().__init__(_lib.weft_error().decode("utf-8", "replace"))
        self.code = code


def _check(code):
    if code:
        raise Error(code)


def _bytes(text):
    return text.encode() if isinstance(text, str) else bytes(text)


def _ids(ids):
    ids = list(ids)
    return (ctypes.c_int32 * len(ids))(*ids)


def version():
    return _lib.weft_version().decode()


def set_threads(n):
    _lib.weft_set_threads(n)


class Model:
    """A run, a checkpoint, RUN@best or RUN@STEP."""

    def __init__(self, path):
        self._writers = set()               # what ends those that write now
        self._m = _lib.weft_model_open(os.fsencode(path))
        if not self._m:
            raise Error(3)
        text = ctypes.create_string_buffer(1 << 16)
        _lib.weft_model_info(self._m, text, len(text))
        self.info = json.loads(text.value.decode("utf-8", "replace"))
        self.vocab, self.eos = self.info["vocab"], self.info["eos"]

    def close(self):
        """Ends the generators that are under way, too."""
        for end in list(self._writers):
            end()
        _lib.weft_model_close(self._m)
        self._m = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def tokenize(self, text):
        text = _bytes(text)
        ids = (ctypes.c_int32 * (len(text) + 1))()
        n = _lib.weft_tokenize(self._m, text, len(text), ids, len(ids))
        if n < 0:
            raise Error(6)
        return list(ids[:n])

    def detokenize(self, ids):
        """Bytes: ids may end inside a character."""
        ids = _ids(ids)
        n = _lib.weft_detokenize(self._m, ids, len(ids), None, 0)
        text = ctypes.create_string_buffer(n + 1)
        _lib.weft_detokenize(self._m, ids, len(ids), text, n)
        return text.raw[:n]

    def score(self, text):
        """Nats of every token of a text."""
        text = _bytes(text)
        nats = (ctypes.c_float * (len(text) + 32))()        # and a prefix's
        n = _lib.weft_score(self._m, text, len(text), nats, len(nats))
        if n < 0:
            raise Error(6)
        return list(nats[:n])

    def generate(self, prompt="", **options):
        """The text after a prompt, piece by piece; options as weft_generate has them. It
        is written by a thread, which ends when the generator is closed."""
        prompt, pieces, stop = _bytes(prompt), queue.Queue(64), threading.Event()
        options, result = json.dumps(options).encode(), []

        def take(_, data, n):
            pieces.put(ctypes.string_at(data, n))
            return stop.is_set()

        def run():
            code = _lib.weft_generate(self._m, prompt, len(prompt), options,
                                      _BYTES(take), None)
            result.append(Error(code) if code not in (0, 130) else None)
            pieces.put(None)

        def end():
            stop.set()
            while writer.is_alive():            # it may wait for room in the queue
                try:
                    pieces.get_nowait()
                except queue.Empty:
                    writer.join(0.01)
            pieces.put(None)                    # for who reads on

        writer = threading.Thread(target=run, daemon=True)
        self._writers.add(end)
        writer.start()
        try:
            while (piece := pieces.get()) is not None:
                yield piece.decode("utf-8", "replace")
        finally:
            self._writers.discard(end)
            end()
        if result[0]:
            raise result[0]

    def session(self, slots=1):
        return Session(self, slots)

    def sampler(self, **options):
        return Sampler(self, options)


class Session:
    """So many sequences of a model, each in its slot."""

    def __init__(self, model, slots=1):
        self.model, self.slots, self._s = model, slots, None
        self._s = _lib.weft_session_open(model._m, slots)
        if not self._s:
            raise Error(6)

    def close(self):
        _lib.weft_session_close(self._s)
        self._s = None

    __del__ = close

    def feed(self, ids, slot=0):
        """More tokens for one sequence; the logits of the last."""
        ids, logits = _ids(ids), (ctypes.c_float * self.model.vocab)()
        _check(_lib.weft_feed(self._s, slot, ids, len(ids), logits))
        return memoryview(logits).cast("B").cast("f")

    def step(self, slots, ids):
        """One more token for each of some slots; a row of logits for each."""
        k, vocab, ids = len(slots), self.model.vocab, _ids(ids)
        if len(ids) != k:
            raise ValueError(f"{len(ids)} tokens for {k} slots")
        logits = (ctypes.c_float * (k * vocab))()
        _check(_lib.weft_step(self._s, (ctypes.c_int * k)(*slots), ids, k, logits))
        rows = memoryview(logits).cast("B").cast("f")
        return [rows[i * vocab:(i + 1) * vocab] for i in range(k)]

    def clear(self, slot=0):
        _check(_lib.weft_clear(self._s, slot))

    def copy(self, to, source):
        _check(_lib.weft_copy(self._s, to, source))

    def position(self, slot=0):
        return _lib.weft_position(self._s, slot)

    def state(self, slot=0):
        state = ctypes.create_string_buffer(_lib.weft_state_size(self._s))
        _check(_lib.weft_state_get(self._s, slot, state, len(state)))
        return state.raw

    def set_state(self, state, slot=0):
        _check(_lib.weft_state_set(self._s, slot, state, len(state)))


def _is_floats(x):
    """Can C read x as it is?"""
    try:
        view = memoryview(x)
    except TypeError:
        return False
    return view.format in ("f", "<f") and view.contiguous and not view.readonly


class Sampler:
    def __init__(self, model, options):
        self._vocab, self._s = model.vocab, None
        self._s = _lib.weft_sampler_open(model._m, json.dumps(options).encode())
        if not self._s:
            raise Error(2)

    def pick(self, logits):
        if len(logits) < self._vocab:
            raise ValueError(f"{len(logits)} logits of a vocabulary of {self._vocab}")
        row = ctypes.c_float * len(logits)
        return _lib.weft_pick(self._s, row.from_buffer(logits) if _is_floats(logits)
                              else row(*logits))

    def accept(self, token):
        _lib.weft_accept(self._s, token)

    def close(self):
        _lib.weft_sampler_close(self._s)
        self._s = None

    __del__ = close


def train(on_step=None, **options):
    """Train a new run, as weft_train has it; when on_step(StepInfo) is True it stops, and
    when that raises, or at Ctrl-C, which this then raises."""
    raised = []

    def call(_, step):
        try:
            return bool(on_step and on_step(step.contents))
        except BaseException as e:          # ctypes would print it, and train on
            raised.append(e)
            return True

    code = _lib.weft_train(json.dumps(options).encode(), _STEP(call), None)
    if raised:
        raise raised[0]
    if code != 130:
        _check(code)
