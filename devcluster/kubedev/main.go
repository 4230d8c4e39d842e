// Command kubedev holds every Kubernetes program of a development cluster in one binary: built once, they share
// their common code, which makes the build and the file about a third of six single ones.
//
// The program is chosen by the name that the binary is called by, or else by the first argument:
//
//	kubedev etcd --data-dir=...
//	ln -s kubedev kubectl && ./kubectl get pods
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the controllers
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const wrongUse = 2

// programs maps a name to what runs it and returns the exit code.
var programs = map[string]func() int{
	"etcd": func() int {
		etcdmain.Main(os.Args) // does not return: it exits by itself
		return 0
	},
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllers.NewControllerManagerCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubectl":                 command(kubectl.NewDefaultKubectlCommand),
}

// command delays making a command until it is the chosen one: several register flags in one global set.
func command(create func() *cobra.Command) func() int {
	return func() int { return cli.Run(create()) }
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := programs[name]; !known && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run, known := programs[name]
	if !known {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "kubedev: no program %q; usage: kubedev %s [flags]\n", name, strings.Join(names, "|"))
		os.Exit(wrongUse)
	}
	os.Exit(run())
}
