package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/examples/exactlyonce/check"
	"github.com/lockstep-stream/lockstep/examples/exactlyonce/generate"
	"github.com/lockstep-stream/lockstep/framework"
)

// demo is one run: an empty topic, a database that does not know it, and the
// model of what the database must hold in the end.
type demo struct {
	settings
	screen   *screen
	broker   *kfake.Cluster // nil: real ones
	producer *generate.Producer
	reader   app.Reader
	model    check.Model
	random   *rand.Rand
}

// newDemo checks what is left to check, and connects to everything.
func newDemo(ctx context.Context, s settings, out io.Writer) (_ *demo, err error) {
	db, err := app.ParseDatabase("--sink", s.sink, s.wait, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return nil, err
	}
	d := &demo{settings: s, screen: newScreen(out), random: rand.New(rand.NewPCG(s.seed, 1))}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := d.openTopic(ctx); err != nil {
		return nil, err
	}
	if err := d.openDatabase(ctx, db); err != nil {
		return nil, err
	}
	return d, d.refuseKnownTopic(ctx)
}

// openDatabase creates the tables and opens them for reading.
func (d *demo) openDatabase(ctx context.Context, db app.Database) (err error) {
	if err = db.Migrate(ctx); err == nil {
		d.reader, err = db.Read(ctx)
	}
	if errors.Is(err, framework.ErrUnavailable) {
		err = fmt.Errorf("start the database with docker compose up (PostgreSQL: docker compose --profile postgres up), or correct --sink: %w", err)
	}
	return err
}

// openTopic connects to Kafka, or starts one, and makes sure that the topic
// exists and is empty.
func (d *demo) openTopic(ctx context.Context) (err error) {
	if d.brokers == "" {
		if d.broker, err = kfake.NewCluster(kfake.NumBrokers(1)); err != nil {
			return fmt.Errorf("starting a Kafka in this process: %w", err)
		}
		d.brokers = d.broker.ListenAddrs()[0]
	}
	brokers, err := app.Brokers(d.brokers)
	if err != nil {
		return err
	}
	if d.producer, err = generate.Connect(ctx, brokers, d.topic, d.wait, slog.Default()); err != nil {
		return err
	}
	if err := d.producer.CreateTopic(ctx); err != nil {
		return err
	}
	n, err := d.producer.Records(ctx)
	if err == nil && n > 0 {
		return fmt.Errorf("%w: --topic %s has %d records already, and the check has to know every one: choose another, such as --topic %s.%d",
			framework.ErrConfig, d.topic, n, d.topic, time.Now().Unix())
	}
	return err
}

func (d *demo) refuseKnownTopic(ctx context.Context) error {
	positions, err := d.reader.Positions(ctx, d.topic)
	if err == nil && len(positions) > 0 {
		return fmt.Errorf("%w: --sink holds results of a topic named %s already: choose another --sink, or another topic, such as --topic %s.%d",
			framework.ErrConfig, d.topic, d.topic, time.Now().Unix())
	}
	return err
}

func (d *demo) close() {
	if d.reader != nil {
		if err := d.reader.Close(); err != nil {
			slog.Warn("closing the database", "error", err)
		}
	}
	if d.producer != nil {
		d.producer.Close()
	}
	if d.broker != nil {
		d.broker.Close()
	}
}

// run produces, crashes, finishes and checks.
func (d *demo) run(ctx context.Context) error {
	defer d.screen.end()
	d.screen.say("Kafka at %s, topic %s, %d partitions, --seed %d", d.brokers, d.topic, app.Partitions, d.seed)
	if err := d.produce(ctx); err != nil {
		return err
	}
	saving := d.screen.progress("saving", d.events)
	for i := range d.crashes {
		if err := d.crash(ctx, i, saving); err != nil {
			return err
		}
	}
	if err := d.finish(ctx, saving); err != nil {
		return err
	}
	saving.done()
	return d.verify(ctx)
}

func (d *demo) produce(ctx context.Context) error {
	// The events' own time passes at 100 a second and ends now.
	const step = 10 * time.Millisecond
	g := generate.NewGenerator(d.seed, 1, time.Now().Add(-time.Duration(d.events)*step), step)
	producing, produced := d.screen.progress("producing", d.events), 0
	err := d.producer.Produce(ctx, d.events, 0, g.Next, func(partition int32, offset int64, e app.Event) {
		d.model.Add(partition, offset, e)
		produced++
		producing.set(produced)
	})
	producing.done()
	return err
}

// errDiffers is the error of a check that has found differences, which are
// printed already.
var errDiffers = errors.New("the tables do not hold exactly what was produced")

// verify compares the tables with the model and prints the outcome.
func (d *demo) verify(ctx context.Context) error {
	report, err := d.model.Compare(ctx, d.topic, d.reader)
	if err != nil {
		return err
	}
	d.screen.say("positions:")
	d.screen.positions(d.topic, report.Positions, d.model.Ends())
	d.screen.say("most alerts:")
	for _, t := range report.Top(5) {
		d.screen.say("  %s  %-26s %4d", t.Minute.Format("2006-01-02 15:04"), t.Source, t.Alerts)
	}
	for _, difference := range report.Differences {
		d.screen.say("difference: %s", difference)
	}
	d.screen.say("%s", report)
	if !report.OK() {
		return errDiffers
	}
	return nil
}
