"""Cases that pass and leave something behind, which the next case must not meet."""

from tests.integration.runner.faults.fault import After, Fault

SECONDS = 2.5


def _leaves(name: str, source: str, *, seconds: float = SECONDS, words: tuple[str, ...] = ()) -> Fault:
    return Fault(
        name=f"a case {name}",
        source=source,
        outcome="passed",
        words=words,
        limit_seconds=seconds,
        after=After.NEXT_CASE,
    )


STATE = (
    _leaves("changes the environment", "os.environ[MARK] = '1'\ndel os.environ['HOME']\nos.environ['RANK'] = '77'"),
    _leaves("changes its directory", "os.chdir('/proc')"),
    _leaves("removes its directory", "import tempfile\nos.chdir(tempfile.mkdtemp())\nos.rmdir(os.getcwd())"),
    _leaves("draws random numbers and seeds", "draw()\ntorch.manual_seed(4711)\nnumpy.random.seed(1)\nrandom.seed(2)"),
    _leaves(
        "changes signal handlers and the signal mask",
        "for n in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM): signal.signal(n, lambda *_: None)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})",
    ),
    _leaves("leaves an alarm behind", "signal.signal(signal.SIGALRM, signal.SIG_DFL)\nsignal.alarm(1)"),
    _leaves(
        "changes warnings filters, module path, logging and recursion limit",
        "warnings.simplefilter('error')\nsys.path.insert(0, '/' + MARK)\n"
        "logging.disable(50)\nsys.setrecursionlimit(500)",
    ),
    _leaves(
        "changes default dtype, default device, gradient mode and threads",
        "torch.set_default_dtype(torch.float64)\ntorch.set_default_device('meta')\ntorch.set_grad_enabled(False)\n"
        "torch.set_num_threads(3)",
    ),
    _leaves("changes the umask", "os.umask(0)"),
    _leaves("replaces and closes sys.stdout", "sys.stdout.close()\nsys.stdout = None"),
    _leaves("closes the descriptors of its output", "os.close(1)\nos.close(2)"),
    _leaves(
        "closes its output and has its descriptor taken by a file",
        "os.close(1)\nglobal KEPT\nKEPT = open(os.devnull)\nassert KEPT.fileno() == 1",
    ),
    _leaves(
        "writes 100 MB to stdout",
        "if gang.rank == 1:\n    for _ in range(100): sys.stdout.write(('z' * 127 + '\\n') * 8192)",
        seconds=12,
    ),
    _leaves("writes 10 MB without a line's end", "if gang.rank == 2: os.write(1, b'\\xff' * (10 << 20))", seconds=12),
)  # fmt: skip  # a row reads as a sentence

PROCESSES = (
    _leaves("forks, and the child comes back from the test", "add()\nif gang.rank == 1: os.fork()"),
    _leaves(
        "leaves a process behind",
        "KEPT = subprocess.Popen(['sleep', '1000.5'], start_new_session=True) if gang.rank != 2 else None",
    ),
)

GROUPS = (
    _leaves("destroys the process group", "dist.destroy_process_group()"),
    _leaves("destroys the process group on one rank only", "add()\nif gang.rank == 1: dist.destroy_process_group()"),
    _leaves(
        "replaces the process group by its own and leaves that one",
        "dist.destroy_process_group()\ndist.init_process_group('gloo')\nassert add() == 4",
    ),
    _leaves("makes groups and leaves them", "for _ in range(3): assert add(dist.new_group([0, 1, 2, 3])) == 4"),
    _leaves(
        "makes another number of groups on each rank",
        "for _ in range(gang.rank): dist.distributed_c10d._process_group_name([gang.rank], use_hashed_name=False)",
    ),
)
UNTIDY = STATE + PROCESSES + GROUPS
