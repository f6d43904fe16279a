// Kueue with the integrations of TFJobs and of Jobs, of which one must be on: its own controllers, scheduler and
// webhooks, put together as its cmd/kueue does. That command compiles half as many packages more: this one leaves out
// the other kinds of jobs, the server that shows queues, and the certificates that Kueue makes for itself. The
// configuration is Kueue's own file.
package main

import (
	"context"
	"flag"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	inventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	configv1beta1 "sigs.k8s.io/kueue/apis/config/v1beta1"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueuev1alpha1 "sigs.k8s.io/kueue/apis/kueue/v1alpha1"
	kueuev1beta1 "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/multikueue"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs/kubeflow/jobs/tfjob"
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	dispatcher "sigs.k8s.io/kueue/pkg/controller/workloaddispatcher"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/kubeversion"
	"sigs.k8s.io/kueue/pkg/webhooks"
)

var log = ctrl.Log.WithName("setup")

func main() {
	configFile := flag.String("config", "", "Kueue's configuration, config.kueue.x-k8s.io/v1beta2.")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), *configFile); err != nil {
		log.Error(err, "Kueue ends")
		os.Exit(1)
	}
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kueue.AddToScheme, kueuev1beta1.AddToScheme, kueuev1alpha1.AddToScheme,
		configv1beta1.AddToScheme, configapi.AddToScheme, autoscaling.AddToScheme, inventory.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	utilruntime.Must(jobframework.ForEachIntegration(func(_ string, cb jobframework.IntegrationCallbacks) error {
		if cb.AddToScheme != nil {
			return cb.AddToScheme(scheme)
		}
		return nil
	}))
	return scheme
}

func run(ctx context.Context, configFile string) error {
	options, cfg, err := config.Load(newScheme(), configFile)
	if err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(cfg.FeatureGates); err != nil {
		return err
	}
	if err := config.AddWebhookSettingsTo(&options, &cfg); err != nil {
		return err
	}
	options.Metrics.BindAddress = cfg.Metrics.BindAddress
	kubeConfig, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	kubeConfig.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(
		*cfg.ClientConnection.QPS, int(*cfg.ClientConnection.Burst))
	mgr, err := ctrl.NewManager(kubeConfig, options)
	if err != nil {
		return err
	}
	blocks := cfg.WaitForPodsReady != nil && ptr.Deref(cfg.WaitForPodsReady.BlockAdmission, false)
	formatter := resources.NewResourceFormatter()
	cache := schdcache.New(mgr.GetClient(), schdcache.WithPodsReadyTracking(blocks),
		schdcache.WithResourceFormatter(formatter))
	requeuer := qcache.NewRequeuer()
	if err := mgr.Add(requeuer); err != nil {
		return err
	}
	preemptions := preemptexpectations.New()
	queues := qcache.NewManager(mgr.GetClient(), cache, requeuer,
		qcache.WithPodsReadyRequeuingTimestamp(requeuing(&cfg)),
		qcache.WithPreemptionExpectations(preemptions),
		qcache.WithResourceFormatter(formatter))
	if err := setupIndexes(ctx, mgr, &cfg); err != nil {
		return err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(kubeConfig)
	if err != nil {
		return err
	}
	version := kubeversion.NewServerVersionFetcher(discoveryClient)
	if err := version.FetchServerVersion(); err != nil {
		return err
	}
	owed := core.SetupControllersOpts{PreemptionExpectations: preemptions, ResourceFormatter: formatter}
	if err := setupControllers(ctx, mgr, cache, queues, &cfg, version, owed); err != nil {
		return err
	}
	for _, check := range []func() error{
		func() error { return mgr.AddHealthzCheck("healthz", healthz.Ping) },
		func() error { return mgr.AddReadyzCheck("readyz", mgr.GetWebhookServer().StartedChecker()) },
		func() error { _, err := webhooks.Setup(mgr, nil); return err },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	if err := mgr.Add(scheduler.New(queues, cache, mgr.GetClient(), mgr.GetEventRecorder(constants.AdmissionName),
		scheduler.WithPodsReadyRequeuingTimestamp(requeuing(&cfg)),
		scheduler.WithPreemptionExpectations(preemptions),
		scheduler.WithResourceFormatter(formatter))); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func setupIndexes(ctx context.Context, mgr ctrl.Manager, cfg *configapi.Configuration) error {
	fields := mgr.GetFieldIndexer()
	if err := indexer.Setup(ctx, fields); err != nil {
		return err
	}
	if err := tasindexer.SetupIndexes(ctx, fields); err != nil {
		return err
	}
	if err := multikueue.SetupIndexer(ctx, fields, *cfg.Namespace); err != nil {
		return err
	}
	return jobframework.SetupIndexes(ctx, fields, jobframework.WithEnabledFrameworks(cfg.Integrations.Frameworks))
}

func setupControllers(
	ctx context.Context, mgr ctrl.Manager, cache *schdcache.Cache, queues *qcache.Manager,
	cfg *configapi.Configuration, version *kubeversion.ServerVersionFetcher,
	owed core.SetupControllersOpts,
) error {
	if _, err := core.SetupControllers(mgr, queues, cache, cfg, owed); err != nil {
		return err
	}
	adapters, err := jobframework.GetMultiKueueAdapters(sets.New(cfg.Integrations.Frameworks...))
	if err != nil {
		return err
	}
	if err := multikueue.SetupControllers(mgr, *cfg.Namespace,
		multikueue.WithGCInterval(cfg.MultiKueue.GCInterval.Duration),
		multikueue.WithOrigin(ptr.Deref(cfg.MultiKueue.Origin, configapi.DefaultMultiKueueOrigin)),
		multikueue.WithWorkerLostTimeout(cfg.MultiKueue.WorkerLostTimeout.Duration),
		multikueue.WithAdapters(adapters),
		multikueue.WithDispatcherName(
			ptr.Deref(cfg.MultiKueue.DispatcherName, configapi.MultiKueueDispatcherModeAllAtOnce)),
	); err != nil {
		return err
	}
	if _, err := dispatcher.SetupControllers(mgr, cfg, nil); err != nil {
		return err
	}
	if _, err := tas.SetupControllers(mgr, queues, cache, cfg, nil); err != nil {
		return err
	}
	namespaces, err := metav1.LabelSelectorAsSelector(cfg.ManagedJobsNamespaceSelector)
	if err != nil {
		return err
	}
	return jobframework.SetupControllers(ctx, mgr, log,
		jobframework.WithManageJobsWithoutQueueName(cfg.ManageJobsWithoutQueueName),
		jobframework.WithWaitForPodsReady(cfg.WaitForPodsReady),
		jobframework.WithKubeServerVersion(version),
		jobframework.WithEnabledFrameworks(cfg.Integrations.Frameworks),
		jobframework.WithEnabledExternalFrameworks(cfg.Integrations.ExternalFrameworks),
		jobframework.WithManagerName(constants.KueueName),
		jobframework.WithLabelKeysToCopy(sets.New(cfg.Integrations.LabelKeysToCopy...)),
		jobframework.WithCache(cache),
		jobframework.WithQueues(queues),
		jobframework.WithObjectRetentionPolicies(cfg.ObjectRetentionPolicies),
		jobframework.WithManagedJobsNamespaceSelector(namespaces),
	)
}

func requeuing(cfg *configapi.Configuration) configapi.RequeuingTimestamp {
	if cfg.WaitForPodsReady != nil && cfg.WaitForPodsReady.RequeuingStrategy != nil {
		return ptr.Deref(cfg.WaitForPodsReady.RequeuingStrategy.Timestamp, configapi.EvictionTimestamp)
	}
	return configapi.EvictionTimestamp
}
