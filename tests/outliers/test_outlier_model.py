"""The estimator for one's own features."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from poolsieve.outliers import OutlierModel

RNG = np.random.default_rng(0)
ON_TOPIC = RNG.normal(size=(400, 10)) @ RNG.normal(size=(10, 10))
OFF_TOPIC = 5 * RNG.normal(size=(60, 10))


def test_off_topic_vectors_score_higher():
    model = OutlierModel(contamination=0.05).fit(ON_TOPIC)
    scores = model.decision_function(np.concatenate([ON_TOPIC, OFF_TOPIC]))
    assert roc_auc_score([0] * 400 + [1] * 60, scores) > 0.97
    flags = model.predict(ON_TOPIC)
    assert set(flags.tolist()) <= {0, 1}
    assert flags.mean() < 0.12
    assert model.predict(OFF_TOPIC).mean() > 0.8
    np.testing.assert_array_equal(model.predict(OFF_TOPIC), model.decision_function(OFF_TOPIC) > 0)


def test_known_off_topic_vectors_stay_out_of_the_mixture():
    both, labels = np.concatenate([ON_TOPIC, OFF_TOPIC]), np.repeat([0, 1], [400, 60])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = OutlierModel(seed=3).fit(both, labels)
    alone = OutlierModel(seed=3).fit(ON_TOPIC)
    np.testing.assert_allclose(model.score_samples(both), alone.score_samples(both), rtol=1e-9)


def test_labels_the_wrong_way_round_are_warned_of():
    both, labels = np.concatenate([ON_TOPIC, OFF_TOPIC]), np.repeat([1, 0], [400, 60])
    with pytest.warns(UserWarning, match="wrong way round"):
        OutlierModel(clusters=(1,)).fit(both, labels)


def test_too_little_or_wrong_data_is_refused():
    with pytest.raises(ValueError, match="too few"):
        OutlierModel().fit(ON_TOPIC[:3])
    with pytest.raises(ValueError, match="too few for a mixture of 20"):
        OutlierModel(clusters=(20,)).fit(ON_TOPIC[:30])
    with pytest.raises(ValueError, match="do not vary"):
        OutlierModel().fit(np.ones((40, 3)))
    with pytest.raises(ValueError, match="one label per row"):
        OutlierModel().fit(ON_TOPIC, [0, 1])
    with pytest.raises(ValueError, match="contamination"):
        OutlierModel(contamination=0.0).fit(ON_TOPIC)
